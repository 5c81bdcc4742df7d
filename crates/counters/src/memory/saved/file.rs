//! A file that is replaced whole or not at all, and that others on the machine cannot read: keys of
//! counters name users.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::error::SaveError;
use super::format::MAGIC;

const MODE: u32 = 0o600;

/// Replaces the file by what is written, once that is on the disk.
pub fn replace<T>(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<T>,
) -> Result<T, SaveError> {
    let unwritable = |source| SaveError::Unwritable { path: path.to_owned(), source };
    if !is_ours_to_replace(path).map_err(unwritable)? {
        return Err(SaveError::Foreign { path: path.to_owned() });
    }
    let draft = draft_of(path);
    let written = write_anew(&draft, write).and_then(|written| {
        fs::rename(&draft, path)?;
        sync_folder(path)?;
        Ok(written)
    });
    if written.is_err() {
        // What it held is in nobody's way but the disk's.
        let _ = fs::remove_file(&draft);
    }
    written.map_err(unwritable)
}

/// True if nothing stands there, or counters that were saved: a path that names another file by
/// mistake must not cost that file.
fn is_ours_to_replace(path: &Path) -> io::Result<bool> {
    match File::open(path) {
        Ok(file) => {
            let mut first = Vec::new();
            file.take(MAGIC.len() as u64).read_to_end(&mut first)?;
            Ok(first.is_empty() || first == MAGIC)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

fn draft_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".new");
    PathBuf::from(name)
}

fn write_anew<T>(draft: &Path, write: impl FnOnce(&mut File) -> io::Result<T>) -> io::Result<T> {
    match fs::remove_file(draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(draft)?;
    let written = write(&mut file)?;
    file.sync_all()?;
    Ok(written)
}

/// The new name is on the disk, too.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn place(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        path
    }

    #[test]
    fn a_file_is_for_its_owner_alone_and_replaces_the_one_before() {
        let path = place("replace");
        for content in [&MAGIC[..], b"tgstate\nmore"] {
            // One that a killed process left, which all can read.
            fs::write(draft_of(&path), "half").unwrap();
            replace(&path, |out| out.write_all(content)).unwrap();
            assert_eq!(fs::read(&path).unwrap(), content);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
            assert!(!draft_of(&path).exists());
        }
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_write_that_fails_leaves_what_was_there() {
        let path = place("fails");
        replace(&path, |out| out.write_all(&MAGIC)).unwrap();
        let failed = replace(&path, |out| {
            out.write_all(b"half")?;
            Err::<(), _>(io::Error::other("no space left"))
        });
        assert!(failed.unwrap_err().to_string().contains("no space left"));
        assert_eq!(fs::read(&path).unwrap(), MAGIC);
        assert!(!draft_of(&path).exists());
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_file_of_another_kind_stays() {
        let path = place("foreign");
        fs::write(&path, "version: 1\n").unwrap();
        let refused = replace(&path, |out| out.write_all(&MAGIC)).unwrap_err();
        assert!(matches!(refused, SaveError::Foreign { .. }), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), b"version: 1\n");
        fs::remove_file(path).unwrap();
    }
}
