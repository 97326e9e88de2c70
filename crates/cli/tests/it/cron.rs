//! `pincer cron`: jobs of the schedule, in processes that come and go.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use pincer_scripted::{Script, Server};
use serde_json::{Value, json};

use crate::common::Home;

fn served(replies: &str) -> Server {
    Server::start(Script::parse(&format!("{{ {replies} }}")).unwrap()).unwrap()
}

fn home(server: &Server, more: &str) -> Home {
    let home = Home::with(&format!(
        "{{ workspace: 'work', models: {{ providers: {{ s: {{ baseUrl: '{}/v1', apiKey: 'k' }} }} }}, \
         agents: {{ defaults: {{ model: 's/scripted' }} }}, {more} }}",
        server.url()
    ));
    std::fs::create_dir(home.path("work")).unwrap();
    home
}

const ALWAYS: &str = "replies: [{ parts: [{ text: 'Hello there.' }], repeat: true }]";
const ADD: [&str; 6] = ["cron", "add", "report", "--every", "1h", "-m"];

#[test]
fn a_job_at_a_time_is_listed_in_its_own_zone_and_a_time_that_the_clock_leaves_out_is_when_it_jumps() {
    let server = served(ALWAYS);
    let home = home(&server, "");
    for (name, at, zone) in [("gap", "2099-03-29T02:30", "Europe/Berlin"), ("tea", "2099-06-01T09:00", "asia/tokyo")] {
        let (code, _, err) = home.run(&["cron", "add", name, "--at", at, "--tz", zone, "-m", "Look."]);
        assert_eq!(code, 0, "{err}");
    }
    let (_, listed, _) = home.run(&["cron", "list"]);
    for time in ["2099-03-29 03:00:00 +02:00", "2099-06-01 09:00:00 +09:00"] {
        // Of the schedule, and as the next time.
        assert_eq!(listed.matches(time).count(), 2, "{time}: {listed}");
    }
}

#[test]
fn a_job_is_added_listed_shown_and_removed() {
    let server = served(ALWAYS);
    let home = home(&server, "");
    let add = [
        "cron",
        "add",
        "report",
        "--cron",
        "0 9 * * 1-5",
        "--tz",
        "europe/berlin",
        "-m",
        "Sum up.",
        "--timeout",
        "60",
        "--json",
    ];
    let (code, job) = home.json(&add);
    assert_eq!((code, &job["name"], &job["state"]), (0, &json!("report"), &json!("on")));
    assert_eq!(job["schedule"], json!({ "kind": "cron", "expr": "0 9 * * 1-5", "tz": "Europe/Berlin" }));
    assert_eq!(
        (&job["createdBy"], &job["isolated"], &job["timeoutSeconds"]),
        (&json!("person"), &json!(true), &json!(60))
    );
    let id = job["id"].as_str().unwrap();
    assert_eq!(job["session"], format!("cron:{id}"));
    assert!(job["nextRunAt"].as_str().unwrap().contains("T0"), "{job}");

    let (code, out, _) = home.run(&["cron", "list"]);
    assert!(
        code == 0
            && out.contains("report")
            && out.contains("0 9 * * 1-5 (Europe/Berlin)")
            && out.contains("has not run"),
        "{out}"
    );
    let (_, out, _) = home.run(&["cron", "show", &id[..20]]);
    assert!(out.contains("timeout   60 s") && out.contains("  Sum up.") && out.contains("begins anew"), "{out}");
    let listed = home.json(&["cron", "list", "--json"]).1;
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["id"]), (1, &json!(id)));

    let (code, out, _) = home.run(&["cron", "disable", "report"]);
    assert_eq!((code, out.as_str()), (0, "report is off\n"));
    assert_eq!(home.json(&["cron", "show", "report", "--json"]).1["nextRunAt"], Value::Null);
    let (code, out, _) = home.run(&["cron", "enable", "report"]);
    assert!(code == 0 && out.starts_with("report is on: next at "), "{out}");
    assert_eq!(home.json(&["cron", "runs", "report", "--json"]), (0, json!([])));
    assert_eq!(home.json(&["cron", "remove", "report", "--json"]), (0, json!({ "removed": "report", "id": id })));
    let (code, out, _) = home.run(&["cron", "list"]);
    assert_eq!((code, out.as_str()), (0, "there are no jobs: pincer cron add makes one\n"));
}

#[test]
fn what_is_wrong_is_told_with_a_remedy_and_code_2() {
    let server = served(ALWAYS);
    let home = home(&server, "");
    assert_eq!(home.run(&[&ADD[..], &["Do it."]].concat()).0, 0);
    for (arguments, told) in [
        (&["add", "report", "--every", "1h", "-m", "x"][..], "there is a cron job report already"),
        (&["add", "a", "--cron", "0 25 * * *", "-m", "x"], "the hour field \"25\""),
        (&["add", "a", "--cron", "0 0 30 2 *", "-m", "x"], "fits no time"),
        (&["add", "a", "--every", "0s", "-m", "x"], "too short"),
        (&["add", "a", "--at", "2001-01-01T09:00", "-m", "x"], "has gone by"),
        (&["add", "a", "--at", "9 o'clock", "-m", "x"], "is no time"),
        (&["add", "a", "--cron", "0 9 * * *", "--tz", "Mars/North", "-m", "x"], "no time zone"),
        (&["add", "a", "--every", "1h", "-m", " "], "no message"),
        (&["add", " ", "--every", "1h", "-m", "x"], "needs a name"),
        (&["add", "a", "--every", "1h", "-m", "x", "--agent", "editor"], "no agent \"editor\""),
        (&["add", "a", "--every", "1h", "-m", "x", "--model", "large"], "PROVIDER/MODEL"),
        (&["add", "a", "--every", "1h", "--at", "1h", "-m", "x"], "cannot be used with"),
        (&["add", "a", "-m", "x"], "--every"),
        (&["show", "nope"], "there is no cron job nope: pincer cron list"),
        (&["run", "nope"], "there is no cron job nope"),
        (&["run"], "required"),
    ] {
        let (code, out, err) = home.run(&[&["cron"], arguments].concat());
        assert!(code == 2 && out.is_empty() && err.contains(told), "{arguments:?}: {code} {err}");
    }
    assert_eq!(home.json(&["cron", "list", "--json"]).1.as_array().unwrap().len(), 1);
}

#[test]
fn a_job_is_run_by_hand_and_its_history_has_the_answer() {
    let server = served(ALWAYS);
    let home = home(&server, "");
    home.run(&[&ADD[..], &["Do it."]].concat());
    assert_eq!(home.run(&["cron", "run", "report"]), (0, "Hello there.\n".into(), String::new()));
    let (code, outcome) = home.json(&["cron", "run", "report", "--json"]);
    assert_eq!((code, &outcome["status"], &outcome["summary"]), (0, &json!("ok"), &json!("completed")));
    let runs = home.json(&["cron", "runs", "report", "--json"]).1;
    assert_eq!(runs.as_array().unwrap().len(), 2);
    assert_eq!(
        (&runs[0]["runId"], &runs[0]["text"], &runs[0]["dueAt"]),
        (&outcome["runId"], &json!("Hello there."), &Value::Null)
    );
    let (_, out, _) = home.run(&["cron", "runs", "report"]);
    assert!(out.lines().count() == 2 && out.contains("done") && out.contains("Hello there."), "{out}");
}

#[test]
fn what_is_due_is_run_and_what_fails_has_code_1() {
    let server = served("replies: [{ parts: [{ text: 'Done.' }] }, { status: 401 }, { status: 401, repeat: true }]");
    let home = home(&server, "");
    assert_eq!(home.run(&["cron", "run", "--due"]), (0, "nothing is due\n".into(), String::new()));
    home.run(&["cron", "add", "once", "--at", "1s", "-m", "Do it.", "--delete-after-run"]);
    // The second is over when the process is: `--due` looks until it is due.
    let ran = until_due(&home);
    assert_eq!(
        (ran.0, &ran.1["ran"][0]["job"], &ran.1["ran"][0]["outcome"]["status"]),
        (0, &json!("once"), &json!("ok"))
    );
    assert_eq!(home.json(&["cron", "list", "--json"]).1, json!([]), "it has run for the last time");
    home.run(&["cron", "add", "failing", "--at", "1s", "-m", "Do it."]);
    let ran = until_due(&home);
    assert_eq!((ran.0, &ran.1["ran"][0]["outcome"]["status"]), (1, &json!("error")));
    let job = home.json(&["cron", "show", "failing", "--json"]).1;
    assert_eq!(
        (&job["state"], &job["failures"], &job["runs"][0]["state"]),
        (&json!("over"), &json!(1), &json!("failed"))
    );
    assert!(job["runs"][0]["error"].as_str().unwrap().contains("401"), "{job}");
}

/// Runs what is due until something was.
fn until_due(home: &Home) -> (i32, Value) {
    loop {
        let (code, document) = home.json(&["cron", "run", "--due", "--json"]);
        if document["ran"] != json!([]) {
            return (code, document);
        }
    }
}

#[test]
fn a_run_that_waits_for_a_person_has_code_3_and_goes_on_later() {
    let ask = "{ parts: [{ call: { id: 'c', name: 'exec', arguments: { command: 'rm -f nothing' } } }] }";
    let server = served(&format!("order: 'conversation', replies: [{ask}, {{ parts: [{{ text: 'Gone.' }}] }}]"));
    let home = home(&server, "");
    home.run(&["cron", "add", "clean", "--at", "1s", "-m", "Clean up."]);
    let (code, document) = until_due(&home);
    assert_eq!((code, &document["ran"][0]["outcome"]["status"]), (3, &json!("waiting")));
    assert_eq!(home.json(&["cron", "show", "clean", "--json"]).1["runs"][0]["state"], "waiting");
    // Nothing is due, and the run still waits.
    assert_eq!(home.json(&["cron", "run", "--due", "--json"]), (0, json!({ "ran": [], "skipped": [] })));
    let question = document["ran"][0]["outcome"]["approvals"][0]["approvalId"].as_str().unwrap();
    assert_eq!(home.run(&["approvals", "allow", question]).0, 0);
    let (code, document) = home.json(&["cron", "run", "--due", "--json"]);
    assert_eq!((code, &document["ran"][0]["outcome"]["result"]["payloads"][0]["text"]), (0, &json!("Gone.")));
    assert_eq!(home.json(&["cron", "show", "clean", "--json"]).1["runs"][0]["state"], "done");
}

struct Watching(Child);

impl Watching {
    fn start(home: &Home) -> (Self, impl Iterator<Item = Value> + use<>) {
        let mut command = home.command(&["cron", "run", "--due", "--watch", "--json"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (Self(child), lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()))
    }

    fn end(&mut self, signal: rustix::process::Signal) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, signal).unwrap();
        self.0.wait().unwrap().code()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

#[test]
fn a_process_that_stays_runs_jobs_of_others_until_it_is_ended() {
    let server = served(ALWAYS);
    let home = home(&server, "");
    let (mut watching, mut news) = Watching::start(&home);
    home.run(&["cron", "add", "soon", "--every", "1s", "-m", "Do it."]);
    let began = news.next().unwrap();
    assert_eq!((&began["news"], &began["job"]), (&json!("began"), &json!("soon")));
    let ended = news.next().unwrap();
    assert_eq!((&ended["news"], &ended["outcome"]["status"]), (&json!("ended"), &json!("ok")));
    assert_eq!(watching.end(rustix::process::Signal::TERM), Some(0));
}

#[test]
fn a_killed_process_leaves_its_run_to_the_next_one_and_no_time_is_run_for_twice() {
    let slow = "{ parts: [{ text: 'Done.' }], wire: { headersAfterMs: 60000 } }";
    let server = served(&format!("replies: [{slow}, {{ parts: [{{ text: 'Done.' }}], repeat: true }}]"));
    let home = home(&server, "");
    home.run(&["cron", "add", "once", "--at", "1s", "-m", "Do it."]);
    let (mut watching, mut news) = Watching::start(&home);
    let began = news.next().unwrap();
    while server.requests().is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(watching.end(rustix::process::Signal::KILL), None);
    let (code, document) = home.json(&["cron", "run", "--due", "--json"]);
    assert_eq!((code, &document["ran"][0]["outcome"]["runId"]), (0, &began["runId"]));
    let job = home.json(&["cron", "show", "once", "--json"]).1;
    assert_eq!(
        (job["runs"].as_array().unwrap().len(), &job["runs"][0]["state"], &job["state"]),
        (1, &json!("done"), &json!("over"))
    );
}

#[test]
fn processes_that_are_killed_again_and_again_run_each_time_once() {
    let server = served(ALWAYS);
    let home = home(&server, "");
    for job in ["one", "two"] {
        home.run(&["cron", "add", job, "--every", "1s", "-m", "Do it."]);
    }
    for _ in 0..4 {
        let ran = || home.json(&["cron", "runs", "one", "--json"]).1.as_array().unwrap().len();
        let before = ran();
        let (mut first, _first_news) = Watching::start(&home);
        let (mut second, _second_news) = Watching::start(&home);
        while ran() == before {
            std::thread::yield_now();
        }
        // Whatever they are in the middle of.
        first.end(rustix::process::Signal::KILL);
        second.end(rustix::process::Signal::KILL);
    }
    for job in ["one", "two"] {
        home.run(&["cron", "disable", job]);
    }
    assert_eq!(home.run(&["cron", "run", "--due"]).0, 0);
    for job in ["one", "two"] {
        let runs = home.json(&["cron", "runs", job, "--limit", "100", "--json"]).1;
        let runs = runs.as_array().unwrap();
        let times: Vec<i64> = runs.iter().filter_map(|run| run["dueAt"].as_i64()).collect();
        assert!(times.len() == runs.len() && times.is_sorted_by(|later, earlier| later > earlier), "{runs:?}");
        assert!(runs.iter().all(|run| run["state"] == "done" || run["state"] == "skipped"), "{runs:?}");
    }
}

#[test]
fn a_schedule_that_is_off_runs_nothing_by_itself() {
    let server = served(ALWAYS);
    let home = home(&server, "cron: { enabled: false },");
    let (code, out, _) = home.run(&[&ADD[..], &["Do it."]].concat());
    assert!(code == 0 && out.contains("`cron.enabled` is false"), "{out}");
    let (code, _, err) = home.run(&["cron", "run", "--due"]);
    assert!(code == 2 && err.contains("`cron.enabled` is false"), "{err}");
    assert_eq!(home.run(&["cron", "run", "report"]).0, 0);
}

#[test]
fn a_job_of_another_user_is_not_seen_unless_it_is_asked_for() {
    let server = served(ALWAYS);
    let home = home(&server, "");
    home.run(&["cron", "--user", "token:tom", "add", "his", "--every", "1h", "-m", "Do \u{1b}[31mit."]);
    assert_eq!(home.json(&["cron", "list", "--json"]).1, json!([]));
    assert_eq!(home.run(&["cron", "show", "his"]).0, 2);
    let (_, out, _) = home.run(&["cron", "list", "--all-users"]);
    assert!(out.contains("his") && out.contains("token:tom"), "{out}");
    let (_, out, _) = home.run(&["cron", "--user", "token:tom", "show", "his"]);
    assert!(out.contains("\\u{1b}") && !out.contains('\u{1b}'), "{out}");
}
