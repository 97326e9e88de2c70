//! The list of sessions, and a session as JSON.

use pincer_store::{AgentRunState, AgentRuns, Clock, Millis, Session, SessionPage, Sessions, StoreError};
use pincer_store_sqlite::SqliteStore;
use pincer_tools::one_line;
use serde_json::{Value, json};

use crate::print::short;
use crate::refused::Refused;

use super::House;
use super::find::key;

/// The most characters that are shown of a name in a list.
const MOST_NAME: usize = 40;

/// How a session stands.
pub(super) struct Standing {
    word: &'static str,
    queued: usize,
}

impl Standing {
    /// Looks at the runs of a session that have not ended.
    pub(super) async fn of(store: &SqliteStore, session: &Session) -> Result<Self, StoreError> {
        if !session.is_current {
            return Ok(Self { word: "ended", queued: 0 });
        }
        let open = store.open_runs(&session.user, &session.key).await?;
        let queued = open.iter().filter(|run| run.state == AgentRunState::Queued).count();
        let active = open.iter().find_map(|run| match run.state {
            AgentRunState::Running => Some("working"),
            AgentRunState::Waiting => Some("waiting"),
            _ => None,
        });
        Ok(Self { word: active.unwrap_or(if queued > 0 { "queued" } else { "idle" }), queued })
    }

    /// Returns whether a message has no end yet.
    pub(super) fn is_busy(&self) -> bool {
        !matches!(self.word, "idle" | "ended")
    }

    /// Returns it in words.
    pub(super) fn text(&self) -> String {
        match (self.word, self.queued) {
            ("queued", queued) => format!("queued {queued}"),
            (word, 0) => word.to_owned(),
            (word, queued) => format!("{word}, queued {queued}"),
        }
    }
}

pub(super) async fn list(house: &House, all: bool, limit: u32) -> Result<(Value, String), Refused> {
    let page =
        SessionPage { user: Some(house.user.clone()), with_ended: all, limit: limit + 1, ..SessionPage::default() };
    let mut sessions = house.store.session_page(page).await?;
    let has_more = sessions.len() > limit as usize;
    sessions.truncate(limit as usize);
    let (mut documents, mut rows) = (Vec::new(), Vec::new());
    let now = house.store.now();
    for session in &sessions {
        let standing = Standing::of(&house.store, session).await?;
        documents.push(document(session, &standing));
        let mut row = vec![
            key(session.key.as_str()),
            session.label.as_deref().map_or_else(String::new, |label| format!("\"{}\"", one_line(label, MOST_NAME))),
            standing.text(),
            entries(session.entries),
            format!("{} tokens", tokens(session)),
            format!("{} ago", lasted(now - session.updated_at)),
        ];
        if all {
            row.push(session.id.to_string());
        }
        rows.push(row);
    }
    let mut text = match rows.is_empty() {
        true => "there are no sessions".to_owned(),
        false => table(&rows),
    };
    if has_more {
        text.push_str(&format!("\n(there are more: pincer sessions list --limit {})", limit.saturating_mul(2)));
    }
    Ok((json!(documents), text))
}

/// `1 entry`, `2 entries`.
pub(super) fn entries(count: u32) -> String {
    if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") }
}

/// Returns rows with their columns one below the other.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let shown = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).filter(|(_, width)| **width > 0);
        let cells: Vec<String> = cells.map(|(cell, width)| format!("{cell:width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(shown).collect::<Vec<_>>().join("\n")
}

/// Returns all that is stored of a session besides its entries.
pub(super) fn document(session: &Session, standing: &Standing) -> Value {
    let Session { id, user, key, is_current, agent, label, parent, created_at, interacted_at, updated_at, .. } =
        session;
    let Session { ended, leaf, context_from, entries, settings, totals, active, owner, fence, .. } = session;
    json!({
        "id": id,
        "user": user,
        "key": key,
        "isCurrent": is_current,
        "agent": agent,
        "label": label,
        "parent": parent,
        "createdAt": created_at,
        "interactedAt": interacted_at,
        "updatedAt": updated_at,
        "ended": ended,
        "leaf": leaf,
        "contextFrom": context_from,
        "entries": entries,
        "settings": serde_json::from_str::<Value>(settings).unwrap_or_default(),
        "totals": {
            "input": totals.input,
            "output": totals.output,
            "cacheRead": totals.cache_read,
            "cacheWrite": totals.cache_write,
            "runs": totals.runs,
            "compactions": totals.compactions,
        },
        "active": active,
        "owner": owner,
        "fence": fence.0,
        "state": standing.word,
        "queued": standing.queued,
    })
}

/// Returns the tokens of a session: `812`, `18.1k`, `3.4M`.
pub(super) fn tokens(session: &Session) -> String {
    let totals = &session.totals;
    let all = totals.input.saturating_add(totals.output).saturating_add(totals.cache_read);
    let all = all.saturating_add(totals.cache_write);
    short(all)
}

/// Returns a time in the unit that fits: `12 ms`, `3.2 s`, `5 min`, `3 h`, `2 d`.
pub(crate) fn lasted(millis: Millis) -> String {
    const SECOND: Millis = 1000;
    const MINUTE: Millis = 60 * SECOND;
    const HOUR: Millis = 60 * MINUTE;
    const DAY: Millis = 24 * HOUR;
    match millis.max(0) {
        millis @ ..SECOND => format!("{millis} ms"),
        millis @ ..MINUTE => format!("{:.1} s", millis as f64 / 1e3),
        millis @ ..HOUR => format!("{} min", millis / MINUTE),
        millis @ ..DAY => format!("{} h {} min", millis / HOUR, millis % HOUR / MINUTE),
        millis => format!("{} d {} h", millis / DAY, millis % DAY / HOUR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_fits() {
        for (millis, shown) in [
            (-5, "0 ms"),
            (999, "999 ms"),
            (1500, "1.5 s"),
            (61_000, "1 min"),
            (3_700_000, "1 h 1 min"),
            (90_000_000, "1 d 1 h"),
        ] {
            assert_eq!(lasted(millis), shown);
        }
    }
}
