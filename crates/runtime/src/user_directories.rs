//! The directories of a user, by the conventions of the desktop.

use std::env;
use std::path::PathBuf;

/// Returns `$VARIABLE/pincer`, by default `~/DEFAULT/pincer`; `None` without a home.
pub fn user_directory(variable: &str, default: &str) -> Option<PathBuf> {
    // The convention says that a relative path there is to be ignored.
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute(variable).or_else(|| Some(absolute("HOME")?.join(default)))?;
    Some(base.join("pincer"))
}
