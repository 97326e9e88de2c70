//! Files of earlier versions.

use pincer_store::{
    ApprovalState, Asked, CallState, Claim, CronJobs, CronPage, Fence, Figures, FiguresPage, NewCall, Route, RunId,
    RunState, Safety, SessionPage,
};
use pincer_store_contract::Blocking;
use pincer_store_contract::session_words::{accepted, incoming};
use pincer_store_contract::words::effect;
use rusqlite::Connection;

use super::STEPS;
use crate::SqliteStore;

/// A store as the version before checkpoints wrote it.
const SCHEMA_3: &str = r#"
    INSERT INTO run (id, session, caller, state, owner, fence, created_at, expires_at, result, ended_at) VALUES
        ('waits',   's', 'me', 'waiting',   'p', 3, 10, 900, '"told"', NULL),
        ('acted',   's', 'me', 'running',   'p', 1, 11, NULL, NULL, NULL),
        ('looked',  's', 'me', 'running',   'p', 1, 12, NULL, NULL, NULL),
        ('damaged', 's', 'me', 'waiting',   'p', 1, 13, NULL, NULL, NULL),
        ('odd',     's', 'me', 'waiting',   'p', 1, 14, NULL, NULL, NULL),
        ('ended',   's', 'me', 'completed', 'p', 2, 15, NULL, '{}', 16);
    INSERT INTO snapshot (run, image, bytes, detail) VALUES
        ('waits', x'01', x'aa', '{"version":1,"next_seq":2,"calls":[{"seq":0,"approval":null},{"seq":1,"approval":"ap_1"}]}'),
        ('acted', x'01', x'bb', '{"version":1,"next_seq":1,"calls":[]}'),
        ('looked', x'01', x'cc', '{"version":1,"next_seq":1,"calls":[]}'),
        ('damaged', x'01', x'dd', '{"version":1,'),
        ('odd', x'01', x'ee', '{"next_seq":"2","calls":["ap_3",7,{"approval":"ap_3","seq":"1"}]}');
    INSERT INTO call (run, seq, tool, input, repeat, state, outcome, owner, settled, asked) VALUES
        ('waits', 0, 't', '{}', 'unknown', 'settled', '"done"', 'p', 1, x'05'),
        ('acted', 0, 't', '{}', 'unknown', 'settled', '"done"', 'p', 1, x''),
        ('acted', 1, 't', '{}', 'idempotent', 'dispatched', NULL, 'p', NULL, x''),
        ('looked', 1, 't', '{}', 'pure', 'settled', '"seen"', 'p', 1, x''),
        ('ended', 0, 't', '{}', 'unknown', 'settled', '"done"', 'p', 1, x'');
    INSERT INTO approval (id, run, session, tool, digest, request, state, created_at) VALUES
        ('ap_1', 'waits', 's', 't', x'd1', '{}', 'pending', 10),
        ('ap_2', 'waits', 's', 't', x'd2', '{}', 'allowed', 10),
        ('ap_3', 'odd', 's', 't', x'd3', '{}', 'pending', 10),
        ('ap_4', 'damaged', 's', 't', x'd4', '{}', 'pending', 10),
        ('ap_5', NULL, 's', 't', x'd5', '{}', 'allowed', 10);
    INSERT INTO standing_grant (id, tool, created_at) VALUES ('gr_1', 't', 10);
"#;

fn open_schema_3() -> (tempfile::TempDir, SqliteStore) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pincer.db");
    let connection = Connection::open(&path).expect("a file");
    STEPS[..3].iter().for_each(|step| connection.execute_batch(step).expect("a step"));
    connection.pragma_update(None, "user_version", 3).expect("set");
    connection.execute_batch(SCHEMA_3).expect("filled");
    drop(connection);
    let store = SqliteStore::open(&path).expect("migrated");
    (directory, store)
}

fn next_of(store: &SqliteStore, run: &str) -> Option<u32> {
    Blocking(store).snapshot(run).expect("read").map(|snapshot| snapshot.next)
}

#[test]
fn a_run_that_waits_is_continued_by_this_version() {
    let (_guard, store) = open_schema_3();
    let run = Blocking(&store).run("waits").expect("there");
    assert_eq!((run.state, run.fence, run.expires_at), (RunState::Waiting, Fence(3), Some(900)));
    assert!(run.acknowledged && !run.power_cut && run.key.is_none() && run.tools.is_none());
    let snapshot = Blocking(&store).snapshot("waits").expect("read").expect("kept");
    assert_eq!((snapshot.next, snapshot.image, snapshot.parts), (2, vec![1], vec![vec![0xaa]]));
    assert!(snapshot.detail.contains("\"next_seq\":2"));
    let calls = Blocking(&store).calls("waits").expect("read");
    assert_eq!((calls.len(), calls[0].state, calls[0].settled_at), (1, CallState::Settled, None));
    let claim = Claim { owner: "q".into(), safety: Safety::Process };
    Blocking(&store).claim_run("waits", (RunState::Waiting, Fence(3)), claim).expect("goes on");
}

#[test]
fn a_question_gets_the_number_of_its_call() {
    let (_guard, store) = open_schema_3();
    let seq = |id| Blocking(&store).approval(id).expect("there").seq;
    assert_eq!(["ap_1", "ap_2", "ap_3", "ap_4", "ap_5"].map(seq), [Some(1), None, None, None, None]);
    let asked = Asked {
        session: "s".into(),
        user: "me".into(),
        call: Some(("waits".into(), 1)),
        digest: vec![0xd1],
        fingerprint: b"any".into(),
    };
    let found = Blocking(&store).standing_question(&asked, 20).expect("read").expect("found");
    assert_eq!((found.id.as_str(), found.state), ("ap_1", ApprovalState::Pending));
    let free = Asked { call: None, digest: vec![0xd5], ..asked };
    assert_eq!(Blocking(&store).standing_question(&free, 20).expect("read").expect("found").id, "ap_5");
    assert_eq!(Blocking(&store).grants_for("t", b"any", "anyone", None).expect("read")[0].id, "gr_1");
}

/// Earlier versions matched what had been done since a snapshot by its input. This one would do it again.
#[test]
fn a_run_that_has_acted_since_its_snapshot_loses_it() {
    let (_guard, store) = open_schema_3();
    assert_eq!((next_of(&store, "acted"), next_of(&store, "looked")), (None, Some(1)));
    assert!(!Blocking(&store).let_wait("acted", Fence(1), 100).expect("asked"));
    assert!(Blocking(&store).let_wait("looked", Fence(1), 100).expect("asked"));
    assert_eq!(Blocking(&store).calls("acted").expect("read").len(), 2);
}

#[test]
fn what_is_damaged_stays_as_it_is() {
    let (_guard, store) = open_schema_3();
    assert_eq!((next_of(&store, "damaged"), next_of(&store, "odd")), (Some(0), Some(0)));
    let detail = Blocking(&store).snapshot("damaged").expect("read").expect("kept").detail;
    assert_eq!(detail, "{\"version\":1,");
    assert_eq!(Blocking(&store).run("damaged").expect("there").state, RunState::Waiting);
    assert_eq!(Blocking(&store).run_result("ended").expect("read").as_deref(), Some("{}"));
    assert!(Blocking(&store).abort_run("damaged", 20).expect("aborted"));
}

#[test]
fn deltas_and_room_of_schema_4_are_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pincer.db");
    let connection = Connection::open(&path).expect("a file");
    STEPS[..4].iter().for_each(|step| connection.execute_batch(step).expect("a step"));
    let rows = "INSERT INTO run (id, session, caller, state, owner, fence, created_at, acknowledged, ended_at) VALUES
            ('a', 's', 'me', 'waiting', 'p', 1, 1, 1, NULL), ('b', 's', 'you', 'waiting', 'p', 1, 1, 1, NULL),
            ('c', 's', 'me', 'completed', 'p', 1, 1, 1, 2), ('d', 's', 'me', 'running', 'p', 1, 1, 0, NULL);
        INSERT INTO snapshot (run, next, image, detail, bytes) VALUES ('a', 1, x'01', 'old', x'aa');
        INSERT INTO delta (run, number, next, detail, bytes) VALUES ('a', 1, 2, 'x', x'bb'), ('a', 2, 3, 'new', x'cc');
        PRAGMA user_version = 4";
    connection.execute_batch(rows).expect("rows");
    drop(connection);
    let store = SqliteStore::open(&path).expect("a store");
    let snapshot = Blocking(&store).snapshot("a").expect("read").expect("kept");
    let parts = vec![vec![0xaa], vec![0xbb], vec![0xcc]];
    assert_eq!((snapshot.next, &*snapshot.detail, snapshot.parts), (3, "new", parts));
    let file = Connection::open(&path).expect("the file");
    let mut room = file.prepare("SELECT kind || ' ' || name || ' ' || count FROM room ORDER BY 1").expect("a query");
    let room = room.query_map([], |row| row.get(0)).expect("read");
    let room: Vec<String> = room.collect::<rusqlite::Result<_>>().expect("read");
    assert_eq!(room, ["all  2", "session me\ns 1", "session you\ns 1", "user me 1", "user you 1"]);
}

#[test]
fn runs_calls_and_questions_of_schema_7_are_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pincer.db");
    let connection = Connection::open(&path).expect("a file");
    STEPS[..7].iter().for_each(|step| connection.execute_batch(step).expect("a step"));
    let rows = "INSERT INTO run (id, session, caller, agent_run, state, owner, fence, created_at, ended_at) VALUES
            ('a', 's', 'me', 'ar_1', 'running', 'p', 4, 1, NULL), ('b', 's', 'me', 'ar_1', 'completed', 'p', 1, 1, 2),
            ('c', 's', 'me', NULL, 'waiting', 'p', 1, 1, NULL);
        INSERT INTO snapshot (run, next, image, detail, bytes) VALUES ('a', 2, x'01', '{}', x'aa');
        INSERT INTO call (run, seq, tool, input, repeat, state, outcome, owner, settled, settled_at) VALUES
            ('a', 0, 't', '{}', 'unknown', 'settled', '1', 'p', 1, 5), ('a', 1, 't', '{}', 'unknown', 'dispatched', NULL, 'p', NULL, NULL);
        INSERT INTO approval (id, run, session, tool, digest, request, state, created_at, seq, user, used) VALUES
            ('ap_1', 'a', 's', 't', x'd1', '{}', 'allowed', 10, 1, 'me', 1);
        INSERT INTO standing_grant (id, tool, created_at, user) VALUES ('gr_1', 't', 10, 'me');
        PRAGMA user_version = 7";
    connection.execute_batch(rows).expect("rows");
    drop(connection);
    let store = SqliteStore::open(&path).expect("migrated");
    let on = Blocking(&store);
    assert_eq!(on.runs_of_agent("ar_1").expect("read"), ["a"]);
    let calls = on.calls("a").expect("read");
    let kept: Vec<_> = calls.iter().map(|call| (call.state, call.settled_at, call.line, call.dispatched_at)).collect();
    assert_eq!(kept, [(CallState::Settled, Some(5), None, None), (CallState::Dispatched, None, None, None)]);
    assert!(on.approval("ap_1").expect("there").is_used);
    assert_eq!((on.grants().expect("read").len(), next_of(&store, "a")), (1, Some(2)));
    // A call of that version is made again, and its time is known from then on.
    let claim = Claim { owner: "q".into(), safety: Safety::Process };
    let fence = on.claim_run("a", (RunState::Running, Fence(4)), claim).expect("goes on");
    let again = NewCall { tool: "t".into(), at: 77, ..effect(1) };
    on.dispatch("a", fence, "q", &again, Safety::Process).expect("made again");
    assert_eq!(on.call("a", 1).expect("read").expect("there").dispatched_at, Some(77));
    // There are no sessions yet, and they can be made.
    assert_eq!(on.current_session("me", "s").expect("read"), None);
    assert_eq!(on.session_page(&SessionPage { limit: 9, ..SessionPage::default() }).expect("read"), []);
    assert_eq!(accepted(on, &incoming("ar_2", "s")).session, "ses_of_ar_2");
}

#[test]
fn room_is_counted_as_before() {
    let (_guard, store) = open_schema_3();
    let runs = Blocking(&store).runs(None).expect("listed").into_iter();
    let acknowledged: Vec<RunId> = runs.filter(|run| run.acknowledged).map(|run| run.id).collect();
    assert_eq!(acknowledged, ["damaged", "odd", "waits"]);
}

#[test]
fn jobs_of_schema_12_have_the_place_and_the_session_of_the_run_that_made_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pincer.db");
    let connection = Connection::open(&path).expect("a file");
    STEPS[..12].iter().for_each(|step| connection.execute_batch(step).expect("a step"));
    let rows = r#"INSERT INTO session (id, user, key, is_current, created_at, interacted_at, updated_at, fence) VALUES
            ('s', 'me', 'irc:dm:ann', 1, 1, 1, 1, 1);
        INSERT INTO agent_run (id, user, session_key, session, digest, state, rank, created_at, request) VALUES
            ('ar_1', 'me', 'irc:dm:ann', 1, x'00', 'done', 0, 1,
                '{"message":"x","route":{"channel":"irc","to":"ann","thread":"t1"}}'),
            ('ar_2', 'me', 'main', 1, x'00', 'done', 0, 1, '{"message":"x"}');
        INSERT INTO cron_job (id, user, name, schedule, clock, message, channel, sender, after, made_by, created_at, updated_at) VALUES
            ('a', 'me', 'a', '{}', 'wall', 'x', 'irc', 'irc:ann', 'keep', 'ar_1', 1, 1),
            ('b', 'me', 'b', '{}', 'wall', 'x', NULL, NULL, 'keep', 'ar_2', 1, 1),
            ('c', 'me', 'c', '{}', 'wall', 'x', 'irc', 'irc:ann', 'keep', 'ar_gone', 1, 1),
            ('d', 'me', 'd', '{}', 'wall', 'x', NULL, NULL, 'keep', NULL, 1, 1);
        PRAGMA user_version = 12"#;
    connection.execute_batch(rows).expect("rows");
    drop(connection);
    let store = SqliteStore::open(&path).expect("a store");
    let page = CronPage { user: None, after: None, limit: 9 };
    let jobs = store.cron_jobs(page).wait().expect("read").into_iter();
    let known: Vec<_> = jobs.map(|job| (job.definition.route, job.definition.author)).collect();
    let place = Route { channel: "irc".into(), account: None, to: "ann".into(), thread: Some("t1".into()) };
    let maker = (Some(place), Some("irc:dm:ann".into()));
    assert_eq!(known, [maker, (None, Some("main".into())), (None, None), (None, None)]);
}

#[test]
fn what_the_tools_of_runs_took_is_not_known_of_those_of_schema_14() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pincer.db");
    let connection = Connection::open(&path).expect("a file");
    STEPS[..14].iter().for_each(|step| connection.execute_batch(step).expect("a step"));
    let rows = r#"INSERT INTO session (id, user, key, is_current, created_at, interacted_at, updated_at, fence) VALUES
            ('s', 'me', 'main', 1, 1, 1, 1, 1);
        INSERT INTO agent_run (id, user, session_key, session, digest, state, rank, created_at, started_at, ended_at, generation, request)
            VALUES ('ended', 'me', 'main', 1, x'00', 'done', 0, 1, 1, 7, 1, '{}'),
            ('failed', 'me', 'main', 1, x'00', 'failed', 0, 1, 1, 8, 2, '{}'),
            ('command', 'me', 'main', 1, x'00', 'done', 0, 1, 1, 1, 0, '{}'),
            ('merged', 'me', 'main', 1, x'00', 'merged', 0, 1, NULL, 9, 0, '{}'),
            ('open', 'me', 'main', 1, x'00', 'running', 0, 1, 1, NULL, 1, '{}');
        PRAGMA user_version = 14"#;
    connection.execute_batch(rows).expect("rows");
    drop(connection);
    let store = SqliteStore::open(&path).expect("a store");
    let page = FiguresPage { user: "me".into(), key: None, after: (0, -1), limit: 9 };
    let rows = store.run_figures(page).wait().expect("read").into_iter();
    let known: Vec<_> = rows.map(|row| (row.run.to_string(), row.at, row.figures)).collect();
    assert_eq!(known, [("ended".to_owned(), 7, None), ("failed".to_owned(), 8, None)]);
}

#[test]
fn a_store_of_an_earlier_version_has_no_recordings_and_is_left_as_it_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a store?#%.db");
    let connection = Connection::open(&path).expect("a file");
    STEPS[..3].iter().for_each(|step| connection.execute_batch(step).expect("a step"));
    connection.pragma_update(None, "user_version", 3).expect("set");
    connection.execute_batch(SCHEMA_3).expect("filled");
    drop(connection);
    let before = std::fs::read(&path).expect("the file");
    assert_eq!(SqliteStore::look_at_recordings(&path, "waits").expect("read"), None);
    assert_eq!(std::fs::read(&path).expect("the file"), before);
    // Brought up to date, its runs are there, and none was recorded.
    drop(SqliteStore::open(&path).expect("migrated"));
    let found = SqliteStore::look_at_recordings(&path, "wai").expect("read").expect("of this version");
    assert_eq!((found.len(), found[0].run.id.as_str(), found[0].parts.len()), (1, "waits", 0));
    assert_eq!(found[0].calls.len(), 1);
    let named = |beginning| SqliteStore::look_at_recordings(&path, beginning).expect("read").expect("there").len();
    assert_eq!((named("nothing"), named("%"), named("")), (0, 0, 3), "no more than a few");
    let missing = directory.path().join("missing.db");
    assert!(SqliteStore::look_at_recordings(&missing, "a").is_err() && !missing.exists());
    std::fs::write(&missing, "no store").expect("written");
    assert!(SqliteStore::look_at_recordings(&missing, "a").is_err());
}
