//! `pincer savings`: what tools and instructions took of the requests of agents, beside what direct exposure would have taken.

use std::time::{SystemTime, UNIX_EPOCH};

use pincer_store::{
    Accepted, AgentRunState, AgentRuns, NewAgentRun, QueueLimit, RunChange, Safety, SessionCommit, Sessions, WhenFull,
};
use pincer_store_sqlite::SqliteStore;
use serde_json::{Value, json};

use crate::common::Home;
use crate::common::plan::{Plan, step, text};

/// A reply that calls one tool. No two calls of a conversation may have one id.
fn call(id: &str, name: &str, arguments: &Value) -> String {
    format!("{{ parts: [{{ call: {{ id: '{id}', name: '{name}', arguments: {arguments} }} }}] }}")
}

/// The surfaces: the session, the keys of `tools`, and the replies of a model that keeps two notes.
fn surfaces() -> [(&'static str, &'static str, Vec<String>); 5] {
    let program = |name: &str, api: &str| {
        let code = format!(
            "await {api}('plugin:notes:add_note', {{ text: 'milk' }}); return await {api}('plugin:notes:add_note', {{ text: 'eggs' }})"
        );
        call("a", name, &json!({ "code": code }))
    };
    let note = |text: &str| json!({ "id": "plugin:notes:add_note", "args": { "text": text } });
    let searches = || {
        vec![
            call("a", "tool_search", &json!({ "query": "keep a short note" })),
            call("b", "tool_describe", &json!({ "id": "plugin:notes:add_note" })),
            call("c", "tool_call", &note("milk")),
            call("d", "tool_call", &note("eggs")),
            text("Kept."),
        ]
    };
    let direct = vec![
        call("a", "add_note", &json!({ "text": "milk" })),
        call("b", "add_note", &json!({ "text": "eggs" })),
        text("Kept."),
    ];
    [
        ("one", "", direct),
        ("two", "toolSearch: { mode: 'tools' }", searches()),
        ("six", "toolSearch: { mode: 'directory' }", searches()),
        (
            "ten",
            "toolSearch: { mode: 'code' }",
            vec![program("tool_search_code", "openclaw.tools.call"), text("Kept.")],
        ),
        ("sum", "codeMode: true", vec![program("exec", "tools.call"), text("Kept.")]),
    ]
}

/// The bytes of the tools and of the instructions in all requests that a model got.
fn carried(plan: &Plan) -> (u64, u64) {
    let (mut tools, mut texts) = (0, 0);
    for request in plan.server.requests() {
        for tool in request.body["tools"].as_array().into_iter().flatten() {
            let tool = &tool["function"];
            let tool =
                json!({ "name": tool["name"], "description": tool["description"], "parameters": tool["parameters"] });
            tools += tool.to_string().len() as u64;
        }
        texts += request.body["messages"][0]["content"].as_str().expect("instructions").len() as u64;
    }
    (tools, texts)
}

fn number(value: &Value, path: &str) -> i64 {
    let found = value.pointer(path).unwrap_or_else(|| panic!("no {path} in {value}"));
    found.as_i64().unwrap_or_else(|| panic!("{path} is {found}"))
}

#[test]
fn each_surface_is_compared_with_direct_exposure_and_the_sums_hold() {
    let mut plan = Plan::new("", &[text("Unused.")]);
    let mut told = Vec::new();
    for (session, keys, replies) in surfaces() {
        step(session);
        plan.restart(keys, &replies);
        let document = plan.message(session, "Keep two notes.");
        assert_eq!(document["status"], "ok", "{session}: {document}");
        let tools = document["result"]["telemetry"]["tools"].clone();
        let requests = plan.server.requests().len() as i64;
        assert_eq!(number(&tools, "/requests"), requests, "{session}");

        // As sent: what the model's server got, but for the line breaks between the parts of the instructions.
        let (sent_tools, sent_texts) = carried(&plan);
        assert_eq!(requests as u64 * tools["tools"]["bytes"].as_u64().unwrap(), sent_tools, "{session}: {tools}");
        let texts = requests as u64 * tools["prompt"]["bytes"].as_u64().unwrap();
        assert!(texts <= sent_texts && sent_texts - texts < 30 * requests as u64, "{session}: {sent_texts} {tools}");
        assert_eq!(number(&tools, "/sent/bytes") as u64, sent_tools + texts, "{session}: {tools}");

        // Calls count by the tool that they reach, whatever the way.
        let calls = json!([{ "id": "plugin:notes:add_note", "source": "plugin", "count": 2 }]);
        assert_eq!((&tools["calls"], number(&tools, "/callCount")), (&calls, 2), "{session}");
        told.push((session, tools));
    }

    let direct = &told[0].1;
    assert_eq!(number(direct, "/saved/bytes"), 0, "{direct}");
    for (session, tools) in &told {
        // Direct exposure is what the run with direct exposure has sent.
        assert_eq!(tools["direct"], direct["tools"], "{session}");
        assert_eq!(tools["directPrompt"]["bytes"], direct["prompt"]["bytes"], "{session}");
        assert_eq!(tools["catalogSize"], direct["catalogSize"], "{session}");
        for unit in ["bytes", "tokens"] {
            let [sent, direct, saved] =
                ["sent", "directSent", "saved"].map(|name| number(tools, &format!("/{name}/{unit}")));
            assert_eq!(direct - sent, saved, "{session}: {tools}");
            let first: i64 =
                ["direct", "directPrompt"].iter().map(|name| number(tools, &format!("/{name}/{unit}"))).sum();
            // With direct exposure no request would have been for a search.
            let requests = number(tools, "/requests") - number(tools, "/lookupRequests");
            assert_eq!((direct, requests > 1), (requests * first, true), "{session}: {tools}");
        }
    }
    assert!(told[1..].iter().all(|(_, tools)| number(tools, "/saved/bytes") > 0), "{told:?}");

    step("savings");
    let (code, document) = plan.home.json(&["savings", "--json"]);
    assert_eq!(code, 0, "{document}");
    let rows = document["rows"].as_array().expect("rows");
    let named =
        |name: &str| rows.iter().find(|row| row["session"] == name).unwrap_or_else(|| panic!("{name}: {document}"));
    for (session, tools) in &told {
        assert_eq!((&named(session)["tools"], &named(session)["runs"]), (tools, &json!(1)));
    }
    let total = &document["total"];
    assert_eq!((number(total, "/runs"), rows.len(), total["tools"]["surface"].as_str()), (5, 5, Some("mixed")));
    for path in ["/sent/bytes", "/directSent/tokens", "/saved/tokens", "/requests", "/searchCount", "/callCount"] {
        assert_eq!(
            number(&total["tools"], path),
            told.iter().map(|(_, tools)| number(tools, path)).sum::<i64>(),
            "{path}"
        );
    }
    assert_eq!(number(total, "/tools/callCount"), 10);

    step("one session");
    let (_, one) = plan.home.json(&["savings", "--session", "two", "--json"]);
    assert_eq!((one["rows"].as_array().map(Vec::len), &one["total"]["tools"]), (Some(1), &told[1].1));

    step("a table");
    let (code, table, told) = plan.home.run(&["savings", "--since", "1h"]);
    assert_eq!((code, told.as_str()), (0, ""), "{table}");
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("SESSION") && lines[1].starts_with("sum") && lines[6].starts_with("total"), "{table}");
    let direct = lines.iter().find(|line| line.starts_with("one")).expect("the direct run");
    let words: Vec<&str> = direct.split_whitespace().collect();
    assert_eq!((words[1], words[2], words[3], words[7], words[8]), ("direct", "1", "3", "0", "0.0"), "{table}");

    step("what it shows beside a transcript");
    let shown = plan.home.run(&["sessions", "show", "two"]).1;
    assert!(
        shown.contains("3 shown of ") && shown.contains("plugin:notes:add_note 2") && shown.contains(" saved"),
        "{shown}"
    );
    let (_, shown) = plan.home.json(&["sessions", "show", "two", "--json"]);
    assert_eq!(shown["telemetry"]["tools"], named("two")["tools"]);
    assert_eq!(shown["telemetry"]["each"].as_array().map(Vec::len), Some(1));
}

#[test]
fn runs_of_another_time_and_another_user_are_not_counted_and_those_without_figures_are_unknown() {
    let home = Home::with("{}");
    assert_eq!(home.run(&["savings"]).1.trim(), "there are no runs to sum: `pincer agent -m 'Hello.'` makes one");
    let path = home.path(".state/pincer/pincer.db");
    let store = SqliteStore::open(&path).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
    let user = format!("user:{}", rustix::process::getuid().as_raw());
    let figures = |sent: u64, direct: u64| {
        let weight = |tokens: u64| json!({ "bytes": 4 * tokens, "tokens": tokens });
        let figures = json!({
            "surface": "code\u{1b}[2J", "requests": 1, "sent": weight(sent), "directSent": weight(direct), "catalogSize": 3,
            "calls": [{ "id": "mcp:a:\u{1b}[31m", "source": "mcp", "count": 1 }], "callCount": 1,
        });
        figures.to_string()
    };
    const HOUR: i64 = 3_600_000;
    ended(&store, &user, "small", "r1", now - HOUR, Some(figures(500, 100)));
    ended(&store, &user, "small", "r2", now - 30 * HOUR, Some(figures(100, 1100)));
    ended(&store, &user, "old", "r3", now - 50 * HOUR, Some("not JSON".into()));
    ended(&store, "user:other", "small", "r4", now - HOUR, Some(figures(7, 7_000_000)));
    ended(&store, "user:other", "theirs", "r5", now - HOUR, Some(figures(7, 7_000_000)));

    let savings = |arguments: &[&str]| {
        let (code, document) = home.json(&[&["savings", "--json"], arguments].concat());
        assert_eq!(code, 0, "{document}");
        document
    };
    let saved = |document: &Value| {
        let total = &document["total"];
        [number(total, "/runs"), number(total, "/unknown"), number(total, "/tools/saved/tokens")]
    };
    let all = savings(&[]);
    assert_eq!((saved(&all), &all["rows"][0]["session"]), ([2, 1, 600], &json!("small")), "{all}");
    assert_eq!(saved(&savings(&["--session", "small"])), [2, 0, 600]);
    assert_eq!(saved(&savings(&["--since", "12h"])), [1, 0, -400], "the tools that search cost more than so few tools");
    assert_eq!(saved(&savings(&["--since", "2001-01-01"])), [2, 1, 600]);
    assert_eq!(saved(&savings(&["--since", "1m"])), [0, 0, 0]);
    let days = savings(&["--by", "day"]);
    assert!(days["rows"].as_array().is_some_and(|rows| rows.len() >= 2 && rows[0]["day"].is_string()), "{days}");
    let few = savings(&["--limit", "1"]);
    assert_eq!((few["rows"].as_array().map(Vec::len), number(&few, "/left"), saved(&few)), (Some(1), 1, [2, 1, 600]));

    let (_, table, _) = home.run(&["savings", "--since", "12h"]);
    assert!(table.contains("-400") && table.contains("directly 100: 400 more"), "{table}");
    let (_, table, _) = home.run(&["savings"]);
    assert!(table.contains("Not counted: 1 run from before") && !table.contains('\u{1b}'), "{table:?}");
    let (_, shown, _) = home.run(&["sessions", "show", "small"]);
    assert!(shown.contains("mcp:a:") && !shown.contains('\u{1b}'), "{shown:?}");

    for (arguments, told) in [
        (["--session", "theirs"], "there is no session theirs: `pincer sessions list` shows all"),
        (["--session", "smal"], "there is no session smal: did you mean small? `pincer sessions list` shows all"),
        (
            ["--since", "yesterday"],
            "\"yesterday\" is no time to count from: write 7d, 12h, 2026-11-01 or 2026-11-01T08:00",
        ),
    ] {
        let (code, _, error) = home.run(&[&["savings"], &arguments[..]].concat());
        assert_eq!((code, error.trim()), (2, format!("error: {told}").as_str()));
    }
}

#[test]
fn surfaces_are_measured_over_tools_of_a_file_and_generated_ones() {
    let home = Home::with("{}");
    let tool = |number: usize| {
        let schema = json!({ "type": "object", "properties": { "query": { "type": "string" } } });
        json!({ "server": "s", "name": format!("find_{number}"), "description": "Finds records of a kind.", "schema": schema })
    };
    let tools: Vec<String> = (0..6).map(|number| tool(number).to_string()).collect();
    std::fs::write(home.path("few.tools.jsonl"), tools.join("\n")).unwrap();
    let arguments = ["bench", "surfaces", "--data", "few.tools.jsonl", "--tools", "3,10", "--rounds", "2"];
    let (code, rows, told) = home.run(&[&arguments[..], &["--json"]].concat());
    assert_eq!(code, 0, "{told}");
    let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    let heads: Vec<_> = rows.iter().map(|row| (number(row, "/tools"), row["mode"].as_str().unwrap())).collect();
    let modes = ["direct", "tools", "directory", "code", "codeMode"];
    assert_eq!(heads, [3, 10].map(|count| modes.map(|mode| (count, mode))).concat());
    let shown: Vec<i64> = rows.iter().map(|row| number(row, "/schemas")).collect();
    assert_eq!(shown, [3, 3, 3, 1, 2, 10, 3, 3, 1, 2]);
    for (row, origin) in rows.iter().zip([["real"; 5], ["mixed"; 5]].concat()) {
        assert_eq!(row["origin"], origin, "{row}");
        for format in ["chat", "responses", "messages"] {
            let [bytes, tokens] = ["bytes", "tokens"].map(|unit| number(row, &format!("/request/{format}/{unit}")));
            assert!(tokens > 100 && bytes > 2 * tokens, "{row}");
        }
        assert_eq!(row["searchMs"].is_null(), row["mode"] == "direct", "{row}");
        assert!(row["firstBuildMs"].as_f64() > Some(0.0) && row["buildMs"]["p95"].as_f64() > Some(0.0), "{row}");
    }
    // Of three small tools, the tools that search take more than the tools themselves.
    let tokens = |row: usize| number(&rows[row], "/request/chat/tokens");
    assert!(tokens(0) < tokens(1) && tokens(5) > tokens(6), "{rows:?}");

    let (code, _, told) = home.run(&["bench", "surfaces", "--data", "none", "--tools", "1"]);
    assert!(code == 1 && told.contains("none cannot be read"), "{told}");
}

/// Stores a run that ended at a time, with these figures.
fn ended(store: &SqliteStore, user: &str, key: &str, id: &str, at: i64, figures: Option<String>) {
    let new = NewAgentRun {
        id: id.into(),
        user: user.into(),
        session: key.into(),
        agent: None,
        new_session: format!("session-of-{id}").into(),
        key: None,
        digest: Vec::new(),
        rank: 0,
        request: "{}".into(),
        brief: "{}".into(),
        answer: None,
        delivery: None,
        queue: QueueLimit { cap: 9, full: WhenFull::RefuseNew },
        now: at,
    };
    let Accepted::New { run, .. } = store.accept_run(new).wait().unwrap() else { panic!("{id} is there already") };
    let session = store.session(&run.session).wait().unwrap();
    let fence = store.claim_session(&session.id, session.fence, &"p".into(), SessionCommit::default()).wait().unwrap();
    let last = RunChange { figures: figures.map(Into::into), ..RunChange::new(id.into(), AgentRunState::Done) };
    let commit = SessionCommit { runs: vec![last], release: true, now: at, ..SessionCommit::default() };
    store.commit_session(&session.id, fence, commit, Safety::Process).wait().unwrap();
}
