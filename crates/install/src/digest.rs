//! The digest of a tree, for which an entry of the policy can vouch.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

const PREFIX: &str = "sha256:";

/// The digest of a tree of files, as `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

/// A text is no digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no digest: it must be `sha256:` and 64 hexadecimal digits")]
pub struct NoDigest(String);

impl FromStr for Digest {
    type Err = NoDigest;

    fn from_str(text: &str) -> Result<Self, NoDigest> {
        let digits = text.strip_prefix(PREFIX).filter(|digits| digits.len() == 64);
        match digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit())) {
            Some(digits) => Ok(Self(format!("{PREFIX}{}", digits.to_ascii_lowercase()))),
            None => Err(NoDigest(text.to_owned())),
        }
    }
}

impl TryFrom<String> for Digest {
    type Error = NoDigest;

    fn try_from(text: String) -> Result<Self, NoDigest> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A file of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeFile {
    pub bytes: u64,
    pub executable: bool,
    /// SHA-256 of its content.
    pub content: [u8; 32],
}

/// All files of a tree by their paths, with `/` between the parts.
pub(crate) type Tree = BTreeMap<String, TreeFile>;

/// Returns the digest of a tree: SHA-256 over one line for each file, sorted by the bytes of the paths. A line is `x` or `-`, the
/// SHA-256 of the content and the path, with a space between them. No path has a line break in it, so no two trees have the same lines.
pub(crate) fn digest(tree: &Tree) -> Digest {
    let mut hash = Sha256::new();
    for (path, file) in tree {
        let mode = if file.executable { 'x' } else { '-' };
        hash.update(format!("{mode} {} {path}\n", hexadecimal(&file.content)));
    }
    Digest(format!("{PREFIX}{}", hexadecimal(&hash.finalize())))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: &str, executable: bool) -> TreeFile {
        TreeFile { bytes: content.len() as u64, executable, content: Sha256::digest(content).into() }
    }

    #[test]
    fn a_digest_is_of_paths_contents_and_the_right_to_run() {
        let tree = |path: &str, content: &str, executable| {
            digest(&Tree::from([("a".to_owned(), file("1", false)), (path.to_owned(), file(content, executable))]))
        };
        let one = tree("b", "2", false);
        // printf -- '- %s a\n- %s b\n' "$(printf 1 | sha256sum | cut -c-64)" "$(printf 2 | sha256sum | cut -c-64)" | sha256sum
        assert_eq!(one.to_string(), "sha256:4ff5ecdc2495eb7a6b5e25cca5b161507e63c8c1f882f6d3363e133891a804c1");
        for other in [tree("c", "2", false), tree("b", "3", false), tree("b", "2", true)] {
            assert_ne!(one, other);
        }
        assert_eq!(one.to_string().to_uppercase().replace("SHA", "sha").parse::<Digest>(), Ok(one));
        for text in ["", "sha256:", "sha1:00", &"0".repeat(64), &format!("sha256:{}", "g".repeat(64))] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }
}
