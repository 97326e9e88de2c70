//! Errors of scripts and servers.

use std::io;
use std::path::PathBuf;

/// Names what is wrong with a script, or why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the script {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The text is not JSON5, or not in the form of a script.
    #[error("cannot parse the script")]
    Parse(#[from] json5::Error),
    /// A reply contradicts itself.
    #[error("reply {reply} of the script (counted from 1) contradicts itself")]
    Reply {
        /// The reply, counted from 1.
        reply: usize,
        /// The contradiction.
        #[source]
        flaw: Flaw,
    },
    /// The server cannot listen.
    #[error("cannot listen on 127.0.0.1:{port}")]
    Listen {
        /// The port that was asked for; 0 stands for any.
        port: u16,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

/// Names a contradiction in a reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Flaw {
    /// More than one kind of answer, or a key of another kind.
    #[error("`{key}` does not go with `{kind}`; remove one of them")]
    Mixed {
        /// The key that is out of place.
        key: &'static str,
        /// The key that makes it so.
        kind: &'static str,
    },
    /// Nothing to answer with.
    #[error("it has none of `parts`, `error`, `status` and `recorded`; add one")]
    Empty,
    /// A part that is none, or several.
    #[error(
        "part {part} (counted from 1) must have exactly one of `thinking` (or `encrypted`), `text`, `refusal` and `call`"
    )]
    Part {
        /// The part, counted from 1.
        part: usize,
    },
    /// A status that says nothing of an error.
    #[error("status {0} is no error; use a status from 400 to 599, or `recorded`")]
    NoError(u16),
    /// A status that HTTP does not have.
    #[error("status {0} cannot be sent; use a status from 200 to 599")]
    Status(u16),
    /// A header that HTTP cannot carry.
    #[error("the header `{0}` has a name or a value that HTTP does not allow")]
    Header(String),
    /// A reply after one that is repeated for ever.
    #[error("`repeat` is for the last reply; remove it here")]
    RepeatedTooEarly,
}
