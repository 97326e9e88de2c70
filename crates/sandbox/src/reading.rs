//! Texts and values on their way out of a guest.

use wasmtime::Caller;

use crate::bridge::{Host, Stop, stopped};
use crate::vm::JsValue;
use crate::{Json, JsonError, Limit, MAX_DEPTH, MAX_NODES, REFUSED};

/// Whether a value could not be read for what it is, not for what the program did to it.
pub(crate) fn is_too_large(error: &wasmtime::Error) -> bool {
    matches!(error.downcast_ref::<Stop>(), Some(Stop::Limit(_)))
}

/// Pays for a number of bytes and says how many of them to read.
type Spend = fn(&mut Host, usize) -> Result<usize, Limit>;

/// Copies a guest string out, after its size has been paid for.
fn read_bytes(caller: &mut Caller<'_, Host>, value: JsValue, spend: Spend) -> wasmtime::Result<Vec<u8>> {
    let exports = caller.data().exports().map_err(stopped)?;
    if !value.is_string() {
        return Err(stopped(Stop::Broken("not a string")));
    }
    let roots = exports.roots;
    let pointer = exports.to_c_string.call(&mut *caller, (roots.context, roots.scratch, value.0, 0))? as u32;
    if pointer == 0 {
        return Err(stopped(Stop::Broken("a string cannot be read")));
    }
    let len = exports.read_u32(&*caller, roots.scratch).map_err(stopped)? as usize;
    let len = match spend(caller.data_mut(), len) {
        Ok(len) => len,
        Err(limit) => {
            exports.free_c_string.call(caller, (roots.context, pointer))?;
            return Err(stopped(limit.into()));
        }
    };
    let range = pointer as usize..(pointer as usize).saturating_add(len);
    let bytes =
        exports.memory.data(&*caller).get(range).ok_or_else(|| stopped(Stop::Broken("a string outside memory")))?;
    let bytes = bytes.to_vec();
    exports.free_c_string.call(caller, (roots.context, pointer))?;
    Ok(bytes)
}

pub(crate) fn read_text(caller: &mut Caller<'_, Host>, value: JsValue, spend: Spend) -> wasmtime::Result<String> {
    String::from_utf8(read_bytes(caller, value, spend)?).or_else(|error| {
        let mut bytes = error.into_bytes();
        mend_surrogates(&mut bytes);
        // Only a text that was cut off in the middle of a character can still be wrong.
        Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    })
}

/// A lone surrogate is the one thing a JavaScript string may hold that UTF-8 may not. The engine writes it as the three bytes
/// it would have; U+FFFD, which takes its place, has three too.
fn mend_surrogates(bytes: &mut [u8]) {
    for at in 0..bytes.len().saturating_sub(2) {
        if bytes[at] == 0xed && bytes[at + 1] >= 0xa0 {
            bytes[at..at + 3].copy_from_slice("\u{fffd}".as_bytes());
        }
    }
}

pub(crate) fn read_json(caller: &mut Caller<'_, Host>, value: JsValue, spend: Spend) -> wasmtime::Result<Json> {
    let text = read_text(caller, value, spend)?;
    Json::parse(text).map_err(unreadable)
}

/// Reads a list of values, each of which may be as deep as a value.
pub(crate) fn read_arguments(caller: &mut Caller<'_, Host>, value: JsValue) -> wasmtime::Result<Json> {
    let text = read_text(caller, value, Host::spend_arguments)?;
    Json::parse_list(text).map_err(unreadable)
}

/// A request in the place of one whose arguments were not taken, so that the host says why.
pub(crate) fn refusal(error: &wasmtime::Error) -> wasmtime::Result<(String, Json)> {
    let why = Json::of(&[format!("{error}: pass less at a time")]).map_err(unreadable)?;
    Ok((REFUSED.into(), why))
}

fn unreadable(error: JsonError) -> wasmtime::Error {
    stopped(match error {
        JsonError::TooDeep => Limit::Depth { limit: MAX_DEPTH }.into(),
        JsonError::TooManyNodes => Limit::Nodes { limit: MAX_NODES }.into(),
        // Only a program that has changed what its values are made of gets here.
        JsonError::Syntax(_) | JsonError::ReservedKey => Stop::Spoilt(format!("a value is {error}")),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn lone_surrogates_are_replaced_in_place() {
        let mut bytes = [b"a\xed\xa0\x80\xed\x9f\xbfb", &[0xed, 0xb0, 0x80][..]].concat();
        mend_surrogates(&mut bytes);
        assert_eq!(String::from_utf8(bytes).unwrap(), "a\u{fffd}\u{d7ff}b\u{fffd}");
    }
}
