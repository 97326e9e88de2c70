//! JSON as it may leave this machine: read once, and never held as a whole if it is large.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::cleaner::binary_mark;
use crate::redactor::is_secret_name;
use crate::{Cleaner, REDACTED};

/// The longest name of a member that is shown.
const MOST_NAME: usize = 256;
/// The bytes that are counted for a value beside its text.
const VALUE_BYTES: usize = 8;
/// Of a longer text the beginning is cleaned: this many times the characters that are shown.
const SPARE: usize = 5;
/// The end of a beginning, in bytes, which is not shown: it may be the first part of a secret.
const SEAM: usize = 8 << 10;

/// The most of a value that is shown.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Levels of arrays and objects.
    pub depth: usize,
    /// Items of an array, and members of an object.
    pub items: usize,
    /// Characters of a text.
    pub chars: usize,
    /// Bytes of all together, about.
    pub bytes: usize,
}

/// Whether a value is shown as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// All of it.
    Whole,
    /// Something was left out for its size.
    Shortened,
}

impl Cleaner {
    /// Returns JSON as it may leave this machine, within bounds.
    pub fn json(&self, text: &str, bounds: &Bounds) -> Result<(Value, Cut), serde_json::Error> {
        let (left, cut) = (Cell::new(bounds.bytes), Cell::new(Cut::Whole));
        let reading = Reading { cleaner: self, bounds, left: &left, cut: &cut };
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let value = Seed { reading, depth: 0, mode: Mode::Text }.deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok((value, cut.get()))
    }

    /// Returns a text as it may leave this machine, with as many characters at most.
    pub fn short(&self, text: &str, chars: usize) -> String {
        self.shortened(text, chars, Mode::Text).0
    }

    fn shortened(&self, text: &str, chars: usize, mode: Mode) -> (String, Cut) {
        let most = chars.saturating_mul(SPARE).saturating_add(SEAM);
        let is_long = text.len() > most;
        if is_long && text.bytes().take(most).all(|byte| byte.is_ascii_alphanumeric() || b"+/=_-\r\n".contains(&byte)) {
            return (binary_mark(text), Cut::Whole);
        }
        let begin = if is_long { &text[..text.floor_char_boundary(most)] } else { text };
        let mut shown = match mode {
            Mode::Code => self.code(begin),
            Mode::Text | Mode::Secret { .. } => self.text(begin),
        };
        if is_long {
            let end = shown.floor_char_boundary(shown.len().saturating_sub(SEAM));
            shown.truncate(end);
        }
        let end = shown.char_indices().nth(chars).map(|(at, _)| at);
        if end.is_none() && !is_long {
            return (shown, Cut::Whole);
        }
        shown.truncate(end.unwrap_or(shown.len()));
        (format!("{shown}… [{} bytes]", text.len()), Cut::Shortened)
    }
}

/// The kind of a text, by its name.
#[derive(Clone, Copy)]
enum Mode {
    Text,
    /// A program.
    Code,
    /// A secret. Numbers of tokens are none.
    Secret {
        shows_numbers: bool,
    },
}

impl Mode {
    fn of(self, name: &str) -> Self {
        if is_secret_name(name) || is_secret_field(name) {
            return Self::Secret { shows_numbers: name.to_ascii_lowercase().contains("token") };
        }
        match (self, name) {
            (Self::Text, "code" | "source" | "script" | "program") => Self::Code,
            (mode, _) => mode,
        }
    }
}

/// Names of secrets that are parts of other words too.
fn is_secret_field(name: &str) -> bool {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    ["passwd", "pwd", "passcode", "pat", "signingkey", "webhookurl"].contains(&name.as_str())
}

/// The state that all parts of a value share while it is read.
#[derive(Clone, Copy)]
struct Reading<'a> {
    cleaner: &'a Cleaner,
    bounds: &'a Bounds,
    left: &'a Cell<usize>,
    cut: &'a Cell<Cut>,
}

impl Reading<'_> {
    /// Takes bytes of the bounds, if they are there.
    fn takes(&self, bytes: usize) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(bytes));
        left > 0
    }

    fn cuts(&self) {
        self.cut.set(Cut::Shortened);
    }
}

struct Seed<'a> {
    reading: Reading<'a>,
    depth: usize,
    mode: Mode,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Seed<'_> {
    fn number(&self, number: Option<Number>) -> Value {
        self.reading.takes(VALUE_BYTES);
        match self.mode {
            Mode::Secret { shows_numbers: false } => REDACTED.into(),
            _ => number.map_or(Value::Null, Value::Number),
        }
    }

    fn below(&self, mode: Mode) -> Self {
        Self { reading: self.reading, depth: self.depth + 1, mode }
    }

    /// Returns whether there is no room for what is in an array or an object.
    fn is_closed(&self) -> bool {
        self.depth >= self.reading.bounds.depth || self.reading.left.get() == 0
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(self.number(Some(value.into())))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(self.number(Some(value.into())))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(self.number(Number::from_f64(value)))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        if matches!(self.mode, Mode::Secret { .. }) && !text.is_empty() {
            return Ok(REDACTED.into());
        }
        let (shown, cut) = self.reading.cleaner.shortened(text, self.reading.bounds.chars, self.mode);
        if !self.reading.takes(shown.len() + VALUE_BYTES) {
            self.reading.cuts();
            return Ok(format!("[{} bytes left out]", text.len()).into());
        }
        if cut == Cut::Shortened {
            self.reading.cuts();
        }
        Ok(shown.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let (mut shown, mut more) = (Vec::new(), 0_usize);
        loop {
            if self.is_closed() || shown.len() >= self.reading.bounds.items {
                match items.next_element::<IgnoredAny>()? {
                    Some(_) => more += 1,
                    None => break,
                }
                continue;
            }
            match items.next_element_seed(self.below(self.mode))? {
                Some(item) => shown.push(item),
                None => break,
            }
        }
        self.reading.takes(VALUE_BYTES);
        if more > 0 {
            self.reading.cuts();
            shown.push(format!("[{more} more]").into());
        }
        Ok(shown.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let (mut shown, mut more) = (Map::new(), 0_usize);
        while let Some(name) = members.next_key::<String>()? {
            if self.is_closed() || shown.len() >= self.reading.bounds.items {
                members.next_value::<IgnoredAny>()?;
                more += 1;
                continue;
            }
            let mode = self.mode.of(&name);
            let (mut name, cut) = self.reading.cleaner.shortened(&name, MOST_NAME, Mode::Text);
            if cut == Cut::Shortened {
                self.reading.cuts();
            }
            self.reading.takes(name.len() + VALUE_BYTES);
            let value = members.next_value_seed(self.below(mode))?;
            while shown.contains_key(&name) {
                name.push('~');
            }
            shown.insert(name, value);
        }
        if more > 0 {
            self.reading.cuts();
            shown.insert("…".into(), format!("[{more} more]").into());
        }
        Ok(shown.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const BOUNDS: Bounds = Bounds { depth: 6, items: 64, chars: 1000, bytes: 100_000 };

    fn shown(value: &Value) -> (Value, Cut) {
        Cleaner::default().json(&value.to_string(), &BOUNDS).expect("JSON")
    }

    #[test]
    fn members_are_secret_by_their_names_at_every_depth() {
        let value = json!({
            "apiKey": "abc", "Access-Token": ["x", { "a": "y" }], "password": 1234, "hasToken": true, "max_tokens": 9, "secret": null,
            "usage": { "outputTokens": { "all": 5 } }, "tokensBefore": 7, "a": { "b": { "client_secret": "z" } },
            "sk-abcdefgh12345678": 1, "code": "x('kJ8s+2Lq0vXy7Zt3Bn5Rw9Pd')", "empty_token": "",
        });
        let expected = json!({
            "apiKey": "[redacted]", "Access-Token": ["[redacted]", { "a": "[redacted]" }], "password": "[redacted]", "hasToken": true,
            "max_tokens": 9, "secret": null, "usage": { "outputTokens": { "all": 5 } }, "tokensBefore": 7,
            "a": { "b": { "client_secret": "[redacted]" } }, "[redacted]": 1, "code": "x('[redacted]')", "empty_token": "",
        });
        assert_eq!(shown(&value), (expected, Cut::Whole));
    }

    #[test]
    fn everything_is_bounded() {
        let mut deep = json!("x");
        for _ in 0..50 {
            deep = json!([deep]);
        }
        for value in [
            json!({ "deep": deep }),
            json!({ "wide": vec![1; 1000] }),
            json!({ "long": "y ".repeat(100_000) }),
            json!(vec![vec!["z ".repeat(400); 60]; 60]),
            Value::Object((0..1000).map(|number| (format!("{number}"), json!(1))).collect()),
        ] {
            let (shown, cut) = shown(&value);
            assert!(shown.to_string().len() < 110_000 && cut == Cut::Shortened, "{}", shown.to_string().len());
        }
    }

    #[test]
    fn a_text_is_never_cut_in_the_middle_of_a_secret() {
        let secret = format!("tr0u{}", "b4dor&3-".repeat(100));
        let cleaner = Cleaner::default().knowing([secret.clone()]);
        for before in 0..secret.len() {
            // What is shown is much shorter than what is read, so the end of that comes close.
            let text = format!("{}{}", "a".repeat(before), format!(" {secret}").repeat(60));
            let shown = cleaner.short(&text, 1000);
            assert!(!shown.contains("tr0u") && !shown.contains("b4dor") && shown.len() < 1100, "{before}: {shown}");
        }
    }

    #[test]
    fn broken_json_is_an_error() {
        assert!(Cleaner::default().json("{\"a\":", &BOUNDS).is_err());
        assert!(Cleaner::default().json("{} {}", &BOUNDS).is_err());
    }
}
