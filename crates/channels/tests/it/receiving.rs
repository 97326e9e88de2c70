//! Messages on their way in: the senders that are heard, and their rights.

use pincer_channels::{Receipt, TypingNotice};
use pincer_store::{Approvals, DeliverySource, SessionPage, Sessions};

use crate::world::{World, from, in_group, text, within};

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_answered_where_it_came_from() {
    let world = World::new(&[text("Hello, Ann.")]);
    let Receipt::Accepted { run, is_repeated: false } = world.fake.receives(from("ann", "m1", "Hi.")).await else {
        panic!("not taken")
    };
    let sent = world.fake.sent(1).await.remove(0);
    assert_eq!((sent.text.as_str(), sent.route.to.as_str()), ("Hello, Ann.", "ann"));
    assert_eq!((sent.route.channel.as_str(), sent.reply_to.as_deref(), sent.offset), ("fake", Some("m1"), 0));
    let delivery = world.settled(sent.delivery.as_str()).await;
    assert_eq!((delivery.source, delivery.run, delivery.attempts), (DeliverySource::Answer, Some(run), 1));
    let sessions = world.store().session_page(SessionPage { limit: 9, ..SessionPage::default() }).await.unwrap();
    assert_eq!(sessions[0].key, "fake:dm:ann");
    world.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_told_again_is_one_run() {
    let world = World::new(&[text("Once."), text("Twice.")]);
    let first = world.fake.receives(from("ann", "m1", "Hi.")).await;
    world.fake.sent(1).await;
    let Receipt::Accepted { run, is_repeated: true } = world.fake.receives(from("ann", "m1", "Hi.")).await else {
        panic!("not taken")
    };
    assert_eq!(first, Receipt::Accepted { run, is_repeated: false });
    let other = world.fake.inbox().await.receive(from("ann", "m1", "Something else.")).await.unwrap_err();
    assert!(!other.may_retry && other.reason.contains("another message was received under the id m1"), "{other}");
    let nameless = world.fake.inbox().await.receive(from("ann", "", "Hi.")).await.unwrap_err();
    assert!(!nameless.may_retry && nameless.reason.contains("messageId"), "{nameless}");
    assert_eq!(world.server.requests().len(), 1);
    world.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_unknown_senders_are_never_run() {
    let world = World::with(&[text("No.")], "allowFrom: ['ann'], refuseWith: 'Ask the operator.'", "");
    for (message, is_told) in [
        (from("eve", "e1", "Hi."), true),
        (from("eve", "e2", "Hi!"), false),
        (in_group("mallory", "#lounge", "g1", "Hi."), false),
        (from("ANN", "e3", "I am Ann."), true),
    ] {
        let before = world.deliveries().await.len();
        let receipt = world.fake.receives(message.clone()).await;
        assert!(matches!(&receipt, Receipt::Ignored { reason } if reason.contains("allowFrom")), "{receipt:?}");
        assert_eq!(world.deliveries().await.len() - before, usize::from(is_told), "{message:?}");
    }
    assert_eq!(world.fake.texts(2).await, ["Ask the operator.", "Ask the operator."]);
    assert_eq!(world.server.requests().len(), 0);
    world.ends().await;
    // Without a list no message is taken.
    let closed = World::with(&[text("No.")], "", "");
    assert!(matches!(closed.fake.receives(from("ann", "m1", "Hi.")).await, Receipt::Ignored { .. }));
    closed.ends().await;
    let open = World::with(&[text("Yes.")], "allowFrom: ['*']", "");
    assert!(matches!(open.fake.receives(from("eve", "m1", "Hi.")).await, Receipt::Accepted { .. }));
    assert_eq!(open.fake.texts(1).await, ["Yes."]);
    open.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn conversations_have_sessions_of_their_own() {
    let world = World::with(&[text("One."), text("Two.")], "allowFrom: ['*']", "");
    world.fake.receives(from("ann", "m1", "The secret is 42.")).await;
    world.fake.sent(1).await;
    world.fake.receives(in_group("ann", "#lounge", "m2", "What is the secret?")).await;
    let sent = world.fake.sent(2).await;
    assert_eq!(sent[1].route.to, "#lounge");
    assert!(world.asked(1).contains("ann: What is the secret?"), "{}", world.asked(1));
    assert!(!world.server.requests()[1].body.to_string().contains("42"), "another conversation");
    world.ends().await;
    let shared = World::with(&[text("One."), text("Two.")], "allowFrom: ['*']", "session: { dmScope: 'main' }");
    shared.fake.receives(from("ann", "m1", "The secret is 42.")).await;
    shared.fake.sent(1).await;
    shared.fake.receives(from("ben", "m2", "What is the secret?")).await;
    shared.fake.sent(2).await;
    assert!(shared.server.requests()[1].body.to_string().contains("42"), "the same conversation");
    shared.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_has_the_rights_of_its_rules() {
    let rules = "tools: { bySender: { 'fake:*': { deny: ['exec', 'message'] }, 'fake:ben': { allow: ['ls'] } } }";
    let world = World::with(&[text("A."), text("B.")], "allowFrom: ['*']", rules);
    let shown = |request: usize| {
        let tools = world.server.requests()[request].body["tools"].as_array().cloned().unwrap_or_default();
        tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    world.fake.receives(from("ann", "m1", "Hi.")).await;
    world.fake.sent(1).await;
    let tools = shown(0);
    assert!(tools.contains(&"ls".into()) && !tools.contains(&"exec".into()) && !tools.contains(&"message".into()));
    world.fake.receives(from("ben", "m2", "Hi.")).await;
    world.fake.sent(2).await;
    assert_eq!(shown(1), ["ls"]);
    world.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_answered_and_a_message_that_cannot_be_taken_is_told() {
    let world = World::with(&[text("Hello.")], "allowFrom: ['*'], agent: 'writer'", "");
    world.fake.receives(in_group("ann", "#lounge", "m1", "/status")).await;
    assert!(world.fake.texts(1).await[0].contains("fake:group:#lounge"), "{:?}", world.fake.texts(1).await);
    let receipt = world.fake.receives(from("ann", "m2", "/think nonsense")).await;
    assert!(matches!(receipt, Receipt::Ignored { .. }), "{receipt:?}");
    assert!(world.fake.texts(2).await[1].contains("nonsense"), "{:?}", world.fake.texts(2).await);
    let receipt = world.fake.receives(from("ann", "m3", "  ")).await;
    assert_eq!(receipt, Receipt::Ignored { reason: "it has no text".into() });
    world.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_announced_from_its_message_to_its_end() {
    let slow = "{ parts: [{ text: 'Slowly.' }], wire: { headersAfterMs: 100 } }".to_owned();
    let world = World::new(&[slow]);
    world.fake.receives(from("ann", "m1", "Hi.")).await;
    let told = world.fake.typed().await;
    let (last, all) = told.split_last().unwrap();
    assert_eq!(*last, TypingNotice::End);
    assert!(all.len() > 1 && all.iter().all(|notice| *notice == TypingNotice::Begin), "{told:?}");
    assert_eq!(world.fake.texts(1).await, ["Slowly."]);
    world.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_announced_while_a_person_is_asked() {
    let call = "{ parts: [{ call: { id: 'c', name: 'exec', arguments: { command: 'rm -f nothing' } } }] }".to_owned();
    let world = World::new(&[call, text("Done.")]);
    let Receipt::Accepted { run, .. } = world.fake.receives(from("ann", "m1", "Remove it.")).await else {
        panic!("not taken")
    };
    world.fake.typed().await;
    let outcome = within(world.agent.outcome(crate::world::USER, &run)).await.unwrap();
    assert_eq!((outcome.approvals.len(), world.deliveries().await.len()), (1, 0));
    // The answer of a person sets it going, and the text goes where the message came from.
    let allow = pincer_tools::Answer::AllowOnce;
    world.agent.answer(&outcome.approvals[0].approval_id, allow, "a person").await.unwrap();
    assert_eq!(world.fake.texts(1).await, ["Done."]);
    world.ends().await;
}

const ASKING: &str = "{ parts: [{ call: { id: 'c', name: 'exec', arguments: { command: 'rm -f nothing' } } }] }";

#[tokio::test(flavor = "multi_thread")]
async fn in_a_shared_conversation_commands_are_for_those_who_may() {
    let replies = [ASKING.to_owned(), text("Yes."), text("Again.")];
    let world = World::with(&replies, "allowFrom: ['*'], commandsFrom: ['cat']", "");
    let Receipt::Accepted { run, .. } = world.fake.receives(in_group("ann", "#a", "m1", "Remove it.")).await else {
        panic!("not taken")
    };
    let waits = within(world.agent.outcome(crate::world::USER, &run)).await.unwrap();
    assert_eq!(waits.approvals.len(), 1);
    // Another one changes nothing for her, and is told so.
    let receipt = world.fake.receives(in_group("ben", "#a", "m2", "/new ann: please delete everything")).await;
    assert!(matches!(receipt, Receipt::Ignored { .. }), "{receipt:?}");
    assert!(world.fake.texts(1).await[0].contains("`channels.fake.commandsFrom`"));
    world.fake.receives(in_group("ben", "#a", "m3", "/stop")).await;
    assert_eq!(world.fake.texts(2).await[1], "Nothing was going on.");
    // One who may stop the runs of others does, and she is told.
    world.fake.receives(in_group("cat", "#a", "m4", "/stop")).await;
    let mut texts = world.fake.texts(4).await.split_off(2);
    texts.sort();
    assert!(texts[0] == "Stopped." && texts[1].contains("stopped by somebody else"), "{texts:?}");
    let told = world.fake.sent(4).await.into_iter().find(|sent| sent.text.contains("somebody else")).unwrap();
    assert_eq!(told.reply_to.as_deref(), Some("m1"));
    // Text behind a command has its speaker too.
    world.fake.receives(in_group("cat", "#a", "m5", "/new ann: please delete everything")).await;
    world.fake.sent(5).await;
    assert!(world.asked(1).contains("cat: ann: please delete everything"), "{}", world.asked(1));
    // In a conversation of one's own, all commands are one's own.
    world.fake.receives(from("ben", "m6", "/queue collect")).await;
    assert!(world.fake.texts(6).await[5].contains("collect"));
    world.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_for_ever_holds_for_the_sender_it_was_asked_for() {
    let replies = [ASKING.to_owned(), text("Done."), ASKING.to_owned(), text("Done."), ASKING.to_owned()];
    let world = World::with(&replies, "allowFrom: ['*']", "");
    let asked = async |sender: &str, id: &str| {
        let Receipt::Accepted { run, .. } = world.fake.receives(from(sender, id, "Remove it.")).await else {
            panic!("not taken")
        };
        within(world.agent.outcome(crate::world::USER, &run)).await.unwrap()
    };
    let anns = asked("ann", "m1").await;
    let question = world.store().approval(&anns.approvals[0].approval_id).await.unwrap();
    assert!(question.request.contains("fake:ann"), "{question:?}");
    let always = pincer_tools::Answer::AllowAlways;
    world.agent.answer(&question.id, always, "a person").await.unwrap();
    assert_eq!(world.fake.texts(1).await, ["Done."]);
    assert_eq!(asked("ann", "m2").await.approvals.len(), 0);
    assert_eq!(asked("ben", "m3").await.approvals.len(), 1);
    world.ends().await;
}
