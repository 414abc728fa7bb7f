//! A file that is whole or as it was before: whoever opens it meanwhile sees no half of it.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// Has `write` write all of the file at `path`.
///
/// # Errors
///
/// Why it is not there.
pub fn write(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> io::Result<()> {
    // What a link leads to is replaced, not the link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let before = fs::metadata(&path);
    let is_replaced = before.as_ref().map_or_else(|_| !path.is_symlink(), |it| it.is_file());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let beside = is_replaced.then(|| {
        // As File::create has it, less the umask.
        let mut builder = tempfile::Builder::new();
        builder.permissions(Permissions::from_mode(0o666));
        builder.tempfile_in(folder.unwrap_or(Path::new(".")))
    });
    let all_to = |file: &File| {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.flush()
    };
    match beside {
        Some(Ok(beside)) => {
            all_to(beside.as_file())?;
            if let Ok(before) = before {
                beside.as_file().set_permissions(before.permissions())?;
            }
            beside.persist(path).map_err(|error| error.error)?;
            Ok(())
        }
        // A device or a pipe, or a folder that takes no other file.
        _ => all_to(&File::create(path)?),
    }
}

/// Whether both paths lead to one file.
pub fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path| fs::metadata(path).map(|it| (it.dev(), it.ino())).ok();
    identity(one).is_some_and(|one| Some(one) == identity(other))
}
