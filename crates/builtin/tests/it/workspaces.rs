//! Calls with workspaces of their own: each in its own, none in another's, and nothing of the protection is gone.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pincer_builtin::{Approved, Confinement, ExecSettings, Guard, SandboxBounds, Settings};
use pincer_store::ApprovalState;
use pincer_testkit::doorway::Updates;
use pincer_tools::{Answer, ApprovalRule, Context, Matcher, ReadableFolder, RuleDecision, Site, WorkspaceChoice};
use serde_json::{Value, json};

use crate::common::{House, house, house_with};

fn at(site: Site) -> Context {
    Context { session: "main".into(), user: "me".into(), site: Arc::new(site), ..Context::default() }
}

fn sandbox(root: PathBuf, name: &str) -> Site {
    Site { workspace: WorkspaceChoice::Sandbox { root, name: name.into() }, ..Site::default() }
}

async fn done(house: &House, context: &Context, tool: &str, input: Value) -> Result<Value, String> {
    house.call_as(context, tool, input).await.value().map_err(|error| error.message)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn a_sandboxed_session_works_in_a_directory_of_its_own_that_is_made_on_demand() {
    let house = house();
    let root = house.outside("boxes/deep");
    let (one, two) = (at(sandbox(root.clone(), "one")), at(sandbox(root.clone(), "two")));
    done(&house, &one, "write", json!({ "path": "notes/a.txt", "content": "of one" })).await.unwrap();
    assert_eq!((mode(&root), mode(&root.join("one"))), (0o700, 0o700));
    assert_eq!(fs::read_to_string(root.join("one/notes/a.txt")).unwrap(), "of one");
    assert!(!root.join("two").exists() && !house.path("notes").exists());
    for (tool, input) in [
        ("read", json!({ "path": "notes/a.txt" })),
        ("read", json!({ "path": "../one/notes/a.txt" })),
        ("read", json!({ "path": root.join("one/notes/a.txt").display().to_string() })),
        ("write", json!({ "path": "../one/b.txt", "content": "" })),
        ("edit", json!({ "path": "notes/a.txt", "edits": [{ "oldText": "of", "newText": "by" }] })),
        ("ls", json!({ "path": "../one" })),
        ("find", json!({ "path": "../one", "pattern": "*" })),
        ("grep", json!({ "path": "../one", "pattern": "of" })),
        ("exec", json!({ "command": "true", "cwd": "../one" })),
    ] {
        let result = done(&house, &two, tool, input.clone()).await;
        assert!(result.is_err(), "{tool} {input} came to {result:?}");
    }
    assert_eq!(done(&house, &one, "read", json!({ "path": "notes/a.txt" })).await.unwrap()["content"], "of one");
    let status = done(&house, &two, "session_status", json!({})).await.unwrap();
    assert_eq!(status["workspace"], root.join("two").display().to_string());
}

#[tokio::test]
async fn what_stands_in_place_of_a_sandbox_is_not_used() {
    let house = house();
    let root = house.outside("boxes");
    fs::create_dir_all(root.join("other")).unwrap();
    fs::write(root.join("other/secret"), "of other").unwrap();
    symlink("other", root.join("linked")).unwrap();
    fs::write(root.join("file"), "").unwrap();
    for name in ["linked", "file"] {
        let context = at(sandbox(root.clone(), name));
        let error = done(&house, &context, "ls", json!({})).await.unwrap_err();
        assert!(error.contains("cannot be used"), "{name}: {error}");
    }
    // One that others could read is for its owner alone from now on.
    fs::set_permissions(root.join("other"), fs::Permissions::from_mode(0o755)).unwrap();
    done(&house, &at(sandbox(root.clone(), "other")), "ls", json!({})).await.unwrap();
    assert_eq!(mode(&root.join("other")), 0o700);
}

#[tokio::test]
async fn a_sandbox_that_was_removed_is_made_anew() {
    let house = house();
    let root = house.outside("boxes");
    let context = at(sandbox(root.clone(), "one"));
    let write = json!({ "path": "a.txt", "content": "x" });
    done(&house, &context, "write", write.clone()).await.unwrap();
    fs::remove_dir_all(&root).unwrap();
    done(&house, &context, "write", write).await.unwrap();
    assert_eq!(fs::read_to_string(root.join("one/a.txt")).unwrap(), "x");
}

#[tokio::test]
async fn a_workspace_of_the_config_is_made_if_its_parent_is_there() {
    let house = house();
    let context = |path: &str| {
        let workspace = WorkspaceChoice::Directory(house.outside(path));
        at(Site { workspace, ..Site::default() })
    };
    done(&house, &context("writer"), "write", json!({ "path": "a", "content": "" })).await.unwrap();
    assert_eq!(mode(&house.outside("writer")), 0o700);
    let error = done(&house, &context("not/there"), "ls", json!({})).await.unwrap_err();
    assert!(error.contains("not/there cannot be used"), "{error}");
    assert!(!house.outside("not").exists());
}

#[tokio::test]
async fn every_workspace_is_protected_in_the_same_way() {
    let guarded = |_: &WorkspaceChoice, root: &Path| vec![root.join("hooks")];
    let house = house_with(|settings| Settings { guard: Guard::new(guarded), ..settings });
    let secret = house.outside("secrets.json");
    fs::write(&secret, "{}").unwrap();
    let context = at(sandbox(house.outside("boxes"), "one"));
    for path in ["hooks/a.sh", ".git/config", "a/pincer.json5", "../out"] {
        let error = done(&house, &context, "write", json!({ "path": path, "content": "x" })).await;
        assert!(error.is_err(), "{path}");
    }
    symlink(&secret, house.outside("boxes/one/link")).unwrap();
    assert!(done(&house, &context, "read", json!({ "path": "link" })).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_run_in_the_workspace_of_their_call_with_its_variables() {
    let exec =
        ExecSettings { environment: BTreeMap::from([("BOTH".into(), "usual".into())]), ..ExecSettings::default() };
    let house = house_with(|settings| Settings { exec, ..settings });
    let workspace = WorkspaceChoice::Directory(house.outside("writer"));
    let pairs = [("TOKEN", "hunter22"), ("BOTH", "of-the-skill"), ("PATH", "/nowhere")];
    let environment = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let context = at(Site { workspace, environment, ..Site::default() });
    let script = "pwd; test \"$TOKEN\" = hunter22 && echo given; echo $BOTH; touch made; printf hunt; printf er22";
    let updates = Arc::new(Updates::default());
    let input = json!({ "command": script });
    let outcome = house.call_with_updates(&context, "exec", input, Arc::clone(&updates) as _).await;
    let output = outcome.value().unwrap();
    let expected = format!("{}\ngiven\nusual\n[redacted]", house.outside("writer").display());
    assert_eq!(output["stdout"], expected.as_str(), "{output}");
    assert!(house.outside("writer/made").exists());
    assert!(!json!(*updates.0.lock().unwrap()).to_string().contains("hunter22"));
    let started =
        done(&house, &context, "exec", json!({ "command": "echo $TOKEN", "background": true })).await.unwrap();
    let poll = json!({ "action": "poll", "id": started["processId"], "waitMs": 10_000 });
    assert_eq!(done(&house, &context, "process", poll).await.unwrap()["stdout"], "[redacted]\n");
    // Another call has none of it.
    let bare = house.ok("exec", json!({ "command": "pwd; echo \"[$TOKEN]\"" })).await;
    assert_eq!(bare["stdout"], format!("{}\n[]\n", house.path("").canonicalize().unwrap().display()));
}

#[tokio::test]
async fn commands_of_a_sandbox_are_confined_or_do_not_run() {
    let house = house();
    let context = at(sandbox(house.outside("boxes"), "one"));
    let error = done(&house, &context, "exec", json!({ "command": "true" })).await.unwrap_err();
    assert!(error.contains("nothing can confine"), "{error}");
    let words = |approved, sandboxed| async move {
        let program = vec!["/bin/echo".to_owned()];
        let confinement = Some(Confinement { program, approved, sandboxed });
        let exec = ExecSettings { confinement, ..ExecSettings::default() };
        let house = house_with(|settings| Settings { exec, ..settings });
        let root = house.outside("boxes");
        let context = at(sandbox(root.clone(), "one"));
        let output = done(&house, &context, "exec", json!({ "command": "true" })).await.unwrap();
        output["stdout"].as_str().unwrap().replace(&root.canonicalize().unwrap().display().to_string(), "ROOT")
    };
    let (open, closed) = (SandboxBounds::Network, SandboxBounds::NoNetwork);
    for (approved, sandboxed, expected) in [
        (Approved::Everything, open, "--write ROOT/one -- sh -c true\n"),
        (Approved::Everything, closed, "--write ROOT/one --no-network -- sh -c true\n"),
        (Approved::Workspace { network: false }, open, "--write ROOT/one --no-network -- sh -c true\n"),
        (Approved::Workspace { network: true }, closed, "--write ROOT/one --no-network -- sh -c true\n"),
    ] {
        assert_eq!(words(approved, sandboxed).await, expected);
    }
}

#[tokio::test]
async fn folders_of_skills_are_read_and_never_written() {
    let house = house();
    let folder = house.outside("state/skills/pdf");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("SKILL.md"), "read me").unwrap();
    fs::write(house.outside("state/skills/other"), "not yours").unwrap();
    symlink("../other", folder.join("link")).unwrap();
    fs::create_dir_all(house.outside("elsewhere")).unwrap();
    fs::write(house.outside("elsewhere/SKILL.md"), "outside").unwrap();
    symlink(house.outside("elsewhere"), house.outside("state/skills/away")).unwrap();
    let readable =
        |name: &str| ReadableFolder { root: house.outside("state"), folder: format!("skills/{name}").into() };
    let context = at(Site { readable: vec![readable("pdf"), readable("away")], ..Site::default() });
    let path = |path: &str| house.outside("state/skills").join(path).display().to_string();
    let page = done(&house, &context, "read", json!({ "path": path("pdf/SKILL.md") })).await.unwrap();
    assert_eq!(page["content"], "read me");
    for wrong in ["pdf/link", "pdf/../other", "other", "pdf", "pdf/none", "away/SKILL.md"] {
        let result = done(&house, &context, "read", json!({ "path": path(wrong) })).await;
        assert!(result.is_err(), "{wrong} came to {result:?}");
    }
    let write = json!({ "path": path("pdf/SKILL.md"), "content": "mine" });
    assert!(done(&house, &context, "write", write).await.is_err());
    // A call without these folders does not read them.
    assert!(done(&house, &at(Site::default()), "read", json!({ "path": path("pdf/SKILL.md") })).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_about_one_workspace_says_nothing_about_another() {
    let house = House::with_door(|door| {
        let matcher = Matcher::parse("test", &["write"]).unwrap();
        door.rule(ApprovalRule { matcher, decision: RuleDecision::Ask })
    });
    let house = Arc::new(house);
    let site = |name: &str| {
        let workspace = WorkspaceChoice::Directory(house.outside(name));
        at(Site { workspace, ..Site::default() })
    };
    let asked = |context: Context| {
        let house = Arc::clone(&house);
        tokio::spawn(async move { done(&house, &context, "write", json!({ "path": "a", "content": "" })).await })
    };
    let first = asked(site("ann"));
    let question = house.question().await;
    let shown = pincer_tools::ApprovalRequest::of(&question).text();
    assert!(shown.contains(&format!("workspace: {}", house.outside("ann").display())), "{shown}");
    house.door.answer(&question.id, Answer::AllowAlways, "me").await.unwrap();
    first.await.unwrap().unwrap();
    asked(site("ann")).await.unwrap().unwrap();
    let other = asked(site("ben"));
    let question = house.question().await;
    assert_eq!(question.state, ApprovalState::Pending);
    house.door.answer(&question.id, Answer::Deny, "me").await.unwrap();
    assert!(other.await.unwrap().unwrap_err().contains("denied"));
    assert!(house.outside("ann/a").exists() && !house.outside("ben/a").exists());
}
