//! The ids of commands in the background.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

/// Names one command for ever: `p1-3f9a2c41`. A program keeps ids in its snapshot and may be continued by another Pincer process,
/// where a bare number would name another command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id {
    /// Counts the commands of one Pincer process, from 1.
    pub number: u64,
    /// Names the Pincer process.
    pub life: Life,
}

/// Names one Pincer process among all that ever were. It has 32 random bits: enough that two processes never share one in
/// practice, and few enough for a model to repeat without a slip. A process id and its start time would do too, but would tell a
/// program about the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life(u32);

/// How many hexadecimal digits a [`Life`] is written with.
const LIFE_DIGITS: usize = 8;

impl Life {
    pub(super) fn new() -> Self {
        // The last 32 bits of such an id are random ones; time and counter are before them.
        let [.., a, b, c, d] = Uuid::now_v7().into_bytes();
        Self(u32::from_be_bytes([a, b, c, d]))
    }
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0LIFE_DIGITS$x}", self.0)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}-{}", self.number, self.life)
    }
}

/// A text that is not an id of any process.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotAnId;

impl FromStr for Id {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let (number, life) = text.strip_prefix('p').and_then(|rest| rest.split_once('-')).ok_or(NotAnId)?;
        if life.len() != LIFE_DIGITS {
            return Err(NotAnId);
        }
        let number = number.parse().map_err(|_| NotAnId)?;
        let id = Self { number, life: Life(u32::from_str_radix(life, 16).map_err(|_| NotAnId)?) };
        // Only the way it is written by us: `p+1` and `p01` are slips.
        if id.to_string() == text { Ok(id) } else { Err(NotAnId) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written_and_no_other_way() {
        let id = Id { number: 12, life: Life(0x00af_92c1) };
        assert_eq!((id.to_string().as_str(), "p12-00af92c1".parse()), ("p12-00af92c1", Ok(id)));
        for garbled in [
            "",
            "p",
            "p1",
            "12-00af92c1",
            "p12-00af92c",
            "p12-00af92c1 ",
            "p+12-00af92c1",
            "p012-00af92c1",
            "p12-00AF92C1",
        ] {
            assert_eq!(garbled.parse::<Id>(), Err(NotAnId), "{garbled}");
        }
    }

    #[test]
    fn each_life_has_another_name() {
        let lives: std::collections::HashSet<u32> = (0..100).map(|_| Life::new().0).collect();
        assert_eq!(lives.len(), 100);
    }
}
