//! What `pyvenv.cfg` says.

use crate::arena::Arena;
use crate::bytes::until;

/// The prompt that `pyvenv.cfg` sets: what uv writes is the prompt itself, what CPython writes
/// is its `repr`, virtualenv's has quotes around it and no escapes.
pub fn prompt<'a>(config: &'a [u8], arena: &mut Arena<'a>) -> Option<&'a [u8]> {
    let value = |name: &[u8]| {
        config.split(|&byte| byte == b'\n').find_map(|line| {
            let key = until(b'=', line);
            let value = line.get(key.len().wrapping_add(1)..)?;
            if key.trim_ascii() == name { Some(value.trim_ascii()) } else { None }
        })
    };
    let prompt = value(b"prompt").filter(|prompt| !prompt.is_empty())?;
    let literal = match prompt {
        [b'\'', inner @ .., b'\''] | [b'"', inner @ .., b'"'] if value(b"uv").is_none() => inner,
        _ => return Some(prompt),
    };
    if value(b"virtualenv").is_some() {
        return Some(literal);
    }
    unescape(literal, arena.bytes(literal.len()).ok()?)
}

/// Undoes the escapes of a Python string literal.
fn unescape<'a>(literal: &[u8], room: &'a mut [u8]) -> Option<&'a [u8]> {
    let mut from = literal.iter().copied();
    let mut len = 0_usize;
    let mut put = |byte: u8| -> Option<()> {
        *room.get_mut(len)? = byte;
        len = len.wrapping_add(1);
        Some(())
    };
    while let Some(mut byte) = from.next() {
        if byte == b'\\' {
            byte = from.next()?;
            let digits = match byte {
                b'x' => 2,
                b'u' => 4,
                b'U' => 8,
                _ => 0,
            };
            if digits > 0 {
                let mut code = 0_u32;
                for _ in 0..digits {
                    let digit = char::from(from.next()?).to_digit(16)?;
                    code = code.checked_mul(16)?.checked_add(digit)?;
                }
                for &byte in char::from_u32(code)?.encode_utf8(&mut [0; 4]).as_bytes() {
                    put(byte)?;
                }
                continue;
            }
            byte = match byte {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                byte => byte,
            };
        }
        put(byte)?;
    }
    room.get(..len)
}
