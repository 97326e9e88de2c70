//! The file tools. All of them work in the [`Workspace`](crate::Workspace) and nowhere else.

mod edit;
mod find;
mod grep;
mod ls;
mod patch;
mod read;
mod write;

pub(crate) use edit::Edit;
pub(crate) use find::Find;
pub(crate) use grep::Grep;
pub(crate) use ls::Ls;
pub(crate) use patch::ApplyPatch;
pub(crate) use read::Read;
pub(crate) use write::Write;
