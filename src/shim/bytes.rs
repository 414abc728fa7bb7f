//! Looking into bytes.

/// `bytes` before the first `end`, or all of them.
pub fn until(end: u8, bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == end).next().unwrap_or_default()
}

/// Whether `byte` is among `bytes`.
pub fn holds(byte: u8, bytes: &[u8]) -> bool {
    until(byte, bytes).len() < bytes.len()
}

/// What comes before the last `/`: empty for a file of the root.
pub fn parent(path: &[u8]) -> Option<&[u8]> {
    path.iter().rposition(|&byte| byte == b'/').and_then(|slash| path.get(..slash))
}

/// What comes behind the last `/`.
pub fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}
