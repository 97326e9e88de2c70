//! Decides where the kept part of a conversation begins. Nothing is done here.

/// An entry of a conversation, as far as it matters where the conversation is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub kind: Kind,
    /// Its size, as a model is sent it.
    pub tokens: u64,
}

/// The role of an entry in a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A message of the user.
    User,
    /// A text that the system adds, in the user's place.
    Told,
    /// A reply with calls of these ids, or none.
    Reply(Vec<String>),
    /// The result of the call with this id.
    Result(String),
    /// Nothing that a model is sent.
    Note,
}

/// Returns the first piece that stays, so that about `keep` tokens do. `None` if all of them may stay, or if nothing can be cut off.
///
/// A call stays with its result, and something always stays. `open_from` is the first piece that something still open belongs to: it
/// stays too. A cut where the user speaks is preferred, if it keeps at least half of `keep`.
pub(crate) fn cut(pieces: &[Piece], keep: u64, open_from: Option<usize>) -> Option<usize> {
    let total: u64 = pieces.iter().map(|piece| piece.tokens).sum();
    if total <= keep {
        return None;
    }
    let may_begin = beginnings(pieces);
    let last = open_from.unwrap_or(pieces.len());
    let (mut before, mut candidates) = (0, Vec::new());
    for (at, piece) in pieces.iter().enumerate() {
        // A summary of nothing is none.
        if before > 0 && at <= last && may_begin[at] {
            candidates.push((at, total - before));
        }
        before += piece.tokens;
    }
    let mut fitting = candidates.iter().filter(|(_, tokens)| *tokens <= keep);
    let Some(first) = fitting.next() else { return candidates.last().map(|(at, _)| *at) };
    let spoken = std::iter::once(first).chain(fitting).find(|(at, _)| pieces[*at].kind == Kind::User);
    Some(spoken.filter(|(_, tokens)| *tokens >= keep / 2).unwrap_or(first).0)
}

/// Returns, for each piece, whether the kept part may begin with it.
fn beginnings(pieces: &[Piece]) -> Vec<bool> {
    let mut may_begin: Vec<bool> =
        pieces.iter().map(|piece| !matches!(piece.kind, Kind::Result(_) | Kind::Note)).collect();
    let replies: Vec<usize> = (0..pieces.len()).filter(|at| matches!(pieces[*at].kind, Kind::Reply(_))).collect();
    for (number, &reply) in replies.iter().enumerate() {
        let Kind::Reply(calls) = &pieces[reply].kind else { continue };
        let next = replies.get(number + 1).copied();
        let after = reply + 1..next.unwrap_or(pieces.len());
        let results: Vec<(usize, &String)> = after
            .clone()
            .filter_map(|at| match &pieces[at].kind {
                Kind::Result(call) => Some((at, call)),
                _ => None,
            })
            .collect();
        let is_open = next.is_none() && calls.iter().any(|call| !results.iter().any(|(_, result)| *result == call));
        let end = match (is_open, results.last()) {
            (true, _) => after.end,
            (false, Some((last, _))) => last + 1,
            (false, None) => continue,
        };
        may_begin[reply + 1..end].fill(false);
    }
    may_begin
}

/// Returns the most tokens that each of these may have so that all have at most `room`. `None` if they fit as they are.
pub(crate) fn share(sizes: &[u64], room: u64) -> Option<u64> {
    if sizes.iter().sum::<u64>() <= room {
        return None;
    }
    let mut sorted = sizes.to_vec();
    sorted.sort_unstable();
    let mut left = room;
    for (at, size) in sorted.iter().enumerate() {
        let count = (sorted.len() - at) as u64;
        if size.saturating_mul(count) > left {
            return Some(left / count);
        }
        left -= size;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn piece(kind: Kind, tokens: u64) -> Piece {
        Piece { kind, tokens }
    }

    fn reply(calls: &[&str], tokens: u64) -> Piece {
        piece(Kind::Reply(calls.iter().map(|call| (*call).to_owned()).collect()), tokens)
    }

    fn result(call: &str, tokens: u64) -> Piece {
        piece(Kind::Result(call.into()), tokens)
    }

    #[test]
    fn the_cut_is_where_a_turn_begins_or_between_calls_and_never_within() {
        let user = |tokens| piece(Kind::User, tokens);
        let note = piece(Kind::Note, 0);
        let check = |pieces: &[Piece], keep, expected| assert_eq!(cut(pieces, keep, None), expected, "{pieces:?}");
        check(&[user(5), reply(&[], 5)], 10, None);
        check(&[user(5), reply(&[], 5)], 5, Some(1));
        check(&[user(500)], 5, None);
        check(&[user(5), reply(&[], 5), user(5), reply(&[], 5)], 15, Some(2));
        check(&[user(5), reply(&[], 5), reply(&[], 20), user(30), reply(&[], 5)], 55, Some(3));
        check(&[user(5), reply(&[], 5), reply(&[], 50), user(2), reply(&[], 3)], 55, Some(2));
        check(&[user(5), reply(&["a"], 5), result("a", 5), reply(&[], 5)], 10, Some(3));
        check(&[user(5), reply(&["a", "b"], 5), result("a", 5), user(5), result("b", 5)], 1, Some(1));
        check(&[user(5), reply(&["a"], 5)], 1, Some(1));
        check(&[user(5), reply(&["a"], 5), note.clone(), user(5)], 1, Some(1));
        check(&[note.clone(), user(5), note], 1, None);
    }

    #[test]
    fn what_is_open_stays() {
        let pieces = [piece(Kind::User, 5), reply(&["a"], 5), result("a", 5), piece(Kind::User, 5)];
        assert_eq!(cut(&pieces, 5, None), Some(3));
        assert_eq!(cut(&pieces, 5, Some(2)), Some(1));
        assert_eq!(cut(&pieces, 5, Some(0)), None);
    }

    #[test]
    fn a_room_is_shared_out_from_the_smallest_on() {
        assert_eq!(share(&[5, 5], 10), None);
        assert_eq!(share(&[1, 100, 50], 61), Some(30));
        assert_eq!(share(&[100, 100], 50), Some(25));
        assert_eq!(share(&[], 0), None);
    }

    fn pieces() -> impl Strategy<Value = Vec<Piece>> {
        let call = prop::sample::select(vec!["a", "b", "c"]).prop_map(str::to_owned);
        let kind = prop_oneof![
            2 => Just(Kind::User),
            1 => Just(Kind::Told),
            4 => prop::collection::vec(call.clone(), 0..3).prop_map(Kind::Reply),
            5 => call.prop_map(Kind::Result),
            1 => Just(Kind::Note),
        ];
        let piece = (kind, 0u64..100).prop_map(|(kind, tokens)| {
            let tokens = if kind == Kind::Note { 0 } else { tokens };
            Piece { kind, tokens }
        });
        prop::collection::vec(piece, 0..40)
    }

    /// Returns, for each result, the reply that it belongs to, if it belongs to one.
    fn owners(pieces: &[Piece]) -> Vec<(usize, usize)> {
        let mut owners = Vec::new();
        let mut reply = None;
        for (at, piece) in pieces.iter().enumerate() {
            match &piece.kind {
                Kind::Reply(calls) => reply = Some((at, calls.clone())),
                Kind::Result(call) => {
                    if let Some((owner, calls)) = &reply
                        && calls.contains(call)
                    {
                        owners.push((at, *owner));
                    }
                }
                _ => {}
            }
        }
        owners
    }

    proptest! {
        #[test]
        fn any_transcript_is_cut_so_that_calls_stay_with_results(pieces in pieces(), keep in 0u64..2000, open in prop::option::of(0usize..40)) {
            let at = cut(&pieces, keep, open);
            let Some(at) = at else { return Ok(()) };
            prop_assert!(at > 0 && at < pieces.len(), "what stays is a suffix and never nothing");
            prop_assert!(open.is_none_or(|open| at <= open), "what is open stays");
            for (result, reply) in owners(&pieces) {
                prop_assert_eq!(result < at, reply < at, "{} belongs to {} and the cut is at {}", result, reply, at);
            }
            // A call that is open waits for its result.
            let last = pieces.iter().rposition(|piece| matches!(piece.kind, Kind::Reply(_)));
            if let Some(last) = last && let Kind::Reply(calls) = &pieces[last].kind {
                let results: Vec<&String> = pieces[last..].iter().filter_map(|piece| match &piece.kind {
                    Kind::Result(call) => Some(call),
                    _ => None,
                }).collect();
                prop_assert!(calls.iter().all(|call| results.contains(&call)) || at <= last);
            }
            prop_assert!(pieces[..at].iter().any(|piece| piece.tokens > 0), "there is something to sum up");
            let kept: u64 = pieces[at..].iter().map(|piece| piece.tokens).sum();
            prop_assert!(kept <= pieces.iter().map(|piece| piece.tokens).sum());
            // Cut again, with the entry of the compaction at its end, nothing more goes.
            let mut again = pieces[at..].to_vec();
            again.push(Piece { kind: Kind::Note, tokens: 0 });
            prop_assert_eq!(cut(&again, keep, open.map(|open| open - at)), None);
        }

        #[test]
        fn shares_fit(sizes in prop::collection::vec(0u64..1000, 0..20), room in 0u64..5000) {
            if let Some(most) = share(&sizes, room) {
                prop_assert!(sizes.iter().map(|size| (*size).min(most)).sum::<u64>() <= room);
            }
        }
    }
}
