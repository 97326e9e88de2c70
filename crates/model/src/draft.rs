//! A reply while it comes in, bounded.

use pincer_json::Json;

use crate::error::{ErrorKind, ModelError, Retry};
use crate::event::{Event, Reply, Stop, Usage};
use crate::limits::{MOST_CALLS, MOST_PARTS, MOST_REPLY_BYTES};
use crate::message::{Assistant, Origin, Part, ToolCall};

/// The characters of a tool's name that a message shows.
const MOST_NAME_CHARS: usize = 100;

/// The position of a part in a draft.
pub(crate) type At = usize;

/// A part of a draft.
#[derive(Debug)]
pub(crate) enum Piece {
    Text { text: String, raw: Option<Json> },
    Thinking { text: String, raw: Option<Json> },
    Refusal { text: String, raw: Option<Json> },
    Call { index: usize, id: String, name: String, arguments: String, raw: Option<Json> },
    Other(Json),
}

/// A reply while it comes in. Events go out as the parts grow.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pieces: Vec<Piece>,
    bytes: usize,
    calls: usize,
    pub id: Option<String>,
    pub usage: Usage,
    pub stop: Option<Stop>,
}

impl Draft {
    /// Counts bytes that are kept for this reply.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.bytes += bytes;
        if self.bytes > MOST_REPLY_BYTES {
            let most = MOST_REPLY_BYTES >> 20;
            return Err(ModelError::new(ErrorKind::TooLarge, format!("the reply has more than {most} MiB")));
        }
        Ok(())
    }

    /// Sets the provider's id of the reply. One that is too long is none: ids of calls are made of it.
    pub(crate) fn set_id(&mut self, id: Option<&str>) {
        const MOST: usize = 256;
        self.id = id.filter(|id| !id.is_empty() && id.len() <= MOST).map(str::to_owned);
    }

    fn add(&mut self, piece: Piece) -> Result<At, ModelError> {
        if self.pieces.len() == MOST_PARTS {
            return Err(ModelError::new(ErrorKind::TooLarge, format!("the reply has more than {MOST_PARTS} parts")));
        }
        self.pieces.push(piece);
        Ok(self.pieces.len() - 1)
    }

    pub(crate) fn begin_text(&mut self) -> Result<At, ModelError> {
        self.add(Piece::Text { text: String::new(), raw: None })
    }

    pub(crate) fn begin_thinking(&mut self) -> Result<At, ModelError> {
        self.add(Piece::Thinking { text: String::new(), raw: None })
    }

    pub(crate) fn begin_refusal(&mut self) -> Result<At, ModelError> {
        self.add(Piece::Refusal { text: String::new(), raw: None })
    }

    pub(crate) fn begin_call(&mut self, id: &str, name: &str, out: &mut Vec<Event>) -> Result<At, ModelError> {
        if self.calls == MOST_CALLS {
            return Err(ModelError::new(ErrorKind::TooLarge, format!("the reply has more than {MOST_CALLS} calls")));
        }
        let index = self.calls;
        self.calls += 1;
        self.grow(id.len() + name.len())?;
        let id = match id {
            // Some servers give none. A result must name one, and no other reply may have the same.
            "" => match &self.id {
                Some(reply) => format!("call_{reply}_{index}"),
                None => format!("call_{:016x}_{index}", fastrand::u64(..)),
            },
            id => id.to_owned(),
        };
        out.push(Event::CallBegan { index, id: id.clone(), name: name.to_owned() });
        self.add(Piece::Call { index, id, name: name.to_owned(), arguments: String::new(), raw: None })
    }

    pub(crate) fn add_other(&mut self, raw: Json) -> Result<At, ModelError> {
        self.grow(raw.as_str().len())?;
        self.add(Piece::Other(raw))
    }

    /// Adds text to a part, whatever it is made of.
    pub(crate) fn push(&mut self, at: At, more: &str, out: &mut Vec<Event>) -> Result<(), ModelError> {
        if more.is_empty() {
            return Ok(());
        }
        self.grow(more.len())?;
        match self.pieces.get_mut(at) {
            Some(Piece::Text { text, .. }) => {
                text.push_str(more);
                out.push(Event::Text(more.to_owned()));
            }
            Some(Piece::Thinking { text, .. }) => {
                text.push_str(more);
                out.push(Event::Thinking(more.to_owned()));
            }
            Some(Piece::Refusal { text, .. }) => {
                text.push_str(more);
                out.push(Event::Refusal(more.to_owned()));
            }
            Some(Piece::Call { index, arguments, .. }) => {
                arguments.push_str(more);
                out.push(Event::CallArguments { index: *index, json: more.to_owned() });
            }
            Some(Piece::Other(_)) | None => {}
        }
        Ok(())
    }

    /// Sets the provider's own form of a part.
    pub(crate) fn set_raw(&mut self, at: At, form: Json) -> Result<(), ModelError> {
        self.grow(form.as_str().len())?;
        match self.pieces.get_mut(at) {
            Some(
                Piece::Text { raw, .. }
                | Piece::Thinking { raw, .. }
                | Piece::Refusal { raw, .. }
                | Piece::Call { raw, .. },
            ) => *raw = Some(form),
            Some(Piece::Other(raw)) => *raw = form,
            None => {}
        }
        Ok(())
    }

    pub(crate) fn get(&self, at: At) -> Option<&Piece> {
        self.pieces.get(at)
    }

    /// The last part, if `is_kind` says so.
    pub(crate) fn last(&self, is_kind: impl Fn(&Piece) -> bool) -> Option<At> {
        self.pieces.last().filter(|piece| is_kind(piece)).map(|_| self.pieces.len() - 1)
    }

    /// Calls that are open, the latest first.
    pub(crate) fn calls(&self) -> impl Iterator<Item = (At, &str)> {
        let call = |(at, piece): (At, &'_ Piece)| match piece {
            Piece::Call { .. } => Some(at),
            _ => None,
        };
        self.pieces.iter().enumerate().rev().filter_map(call).filter_map(|at| match &self.pieces[at] {
            Piece::Call { id, .. } => Some((at, id.as_str())),
            _ => None,
        })
    }

    /// Returns whether the user has seen something of it.
    pub(crate) fn has_shown(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// Makes the reply of everything that came.
    pub(crate) fn finish(self, origin: Origin) -> Result<Reply, ModelError> {
        let mut stop = self.stop.unwrap_or(Stop::End);
        let (mut parts, mut cut_calls) = (Vec::with_capacity(self.pieces.len()), Vec::new());
        for piece in self.pieces {
            parts.push(match piece {
                Piece::Text { text, raw } if text.is_empty() && raw.is_none() => continue,
                Piece::Text { text, raw } => Part::Text { text, raw },
                Piece::Thinking { text, raw } if text.is_empty() && raw.is_none() => continue,
                Piece::Thinking { text, raw } => Part::Thinking { text, raw },
                Piece::Refusal { text, raw } => Part::Refusal { text, raw },
                Piece::Other(raw) => Part::Other(raw),
                Piece::Call { id, name, arguments, raw, .. } => match parsed(&arguments) {
                    Ok(arguments) => Part::Call(ToolCall { id, name, arguments, raw }),
                    Err(_) if matches!(stop, Stop::Length | Stop::Window) => {
                        cut_calls.push(name);
                        continue;
                    }
                    Err(error) => {
                        let name = pincer_http::excerpt(&name, MOST_NAME_CHARS);
                        let message = format!("the arguments of a call of `{name}` are {error}");
                        let error = ModelError::new(ErrorKind::Malformed, message).retry(Retry::Backoff);
                        return Err(ModelError { has_broken_call: true, ..error });
                    }
                },
            });
        }
        let has_calls = parts.iter().any(|part| matches!(part, Part::Call(_)));
        // Some servers say `stop` when there are calls, or `tool_calls` when there are none.
        match stop {
            Stop::End if has_calls => stop = Stop::Calls,
            Stop::Calls if !has_calls => stop = Stop::End,
            Stop::End if parts.iter().any(|part| matches!(part, Part::Refusal { .. })) => stop = Stop::Refusal,
            _ => {}
        }
        let message = Assistant { parts, origin: Some(origin) };
        Ok(Reply { message, stop, usage: self.usage, id: self.id, cut_calls })
    }
}

/// Arguments as JSON. A tool without parameters is called with nothing by some.
fn parsed(arguments: &str) -> Result<Json, pincer_json::JsonError> {
    if arguments.trim().is_empty() { Ok(Json::empty_object()) } else { Json::parse(arguments) }
}
