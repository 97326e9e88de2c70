//! Directories for this user alone.

use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::{fs, io};

/// Makes a directory, and those above it that are missing, for this user alone. One that is there becomes so.
pub(crate) fn private_directory(directory: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    if fs::metadata(directory)?.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}
