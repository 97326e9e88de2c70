//! Results and pictures that a provider would refuse, now and with every later message.

use pincer_agent::{Attachment, Request, Status};

use crate::world::{USER, World, conversation, text, world};

/// A reply with a call of `show` for each of these inputs.
fn shows(inputs: &[&str]) -> String {
    let call = |(input, n): (&&str, u32)| format!("{{ call: {{ id: 'c{n}', name: 'show', arguments: {input} }} }}");
    let calls: Vec<String> = inputs.iter().zip(1..).map(call).collect();
    format!("{{ parts: [{}] }}", calls.join(", "))
}

/// The results that the n-th request tells the model.
fn results(world: &World, request: usize) -> Vec<String> {
    let body = &world.server.requests()[request].body;
    let messages = body["messages"].as_array().unwrap().iter();
    messages.filter(|message| message["role"] == "tool").map(|message| message["content"].to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_in_a_result_that_no_model_takes_becomes_a_note() {
    let pictures = [
        "{ type: 'image/svg+xml', bytes: 8 }",
        "{ type: 'image/png', bytes: 7000000 }",
        "{ type: 'image/png', bytes: 8 }",
    ];
    let world = world(&conversation(&[shows(&pictures), text("I see."), text("Yes.")]), "");
    assert_eq!(world.ask("Look.").await.text(), "I see.");
    assert_eq!(world.ask("Sure?").await.text(), "Yes.");
    for request in [1, 2] {
        let told = results(&world, request);
        assert!(told[0].contains("image/svg+xml with 8 bytes"), "{told:?}");
        assert!(told[1].contains("image/png with 7000000 bytes"), "{told:?}");
        let body = world.server.requests()[request].text.clone();
        assert_eq!((body.matches("data:image/").count(), body.len() < 100_000), (1, true));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_results_of_one_reply_have_one_bound() {
    let world = world(&conversation(&[shows(&["{ bytes: 300000 }"; 10]), text("Much.")]), "");
    assert_eq!(world.ask("Look.").await.text(), "Much.");
    let mut sizes: Vec<usize> = results(&world, 1).iter().map(String::len).collect();
    sizes.sort_unstable();
    assert!(sizes.iter().sum::<usize>() < (1 << 20) + 20_000, "{sizes:?}");
    assert!(sizes[0] > 1000 && sizes[9] > 256 << 10, "each has its share: {sizes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_leaves_room_in_the_window_of_its_model() {
    let world = world(&conversation(&[shows(&["{ bytes: 300000 }"]), text("Much.")]), "");
    let run = world.submit(Request { model: Some("scripted/narrow".into()), ..Request::new("Look.") }).await;
    assert_eq!(world.outcome(&run).await.text(), "Much.");
    let size = results(&world, 1)[0].len();
    assert!((8_000..8_400).contains(&size), "{size}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_with_a_picture_that_no_model_takes_is_refused() {
    let world = world(&conversation(&[text("One.")]), "");
    let refused = async |pictures: Vec<(&str, usize)>| {
        let image = |(kind, bytes): (&str, usize)| Attachment { mime_type: kind.into(), data: "A".repeat(bytes) };
        let request = Request { images: pictures.into_iter().map(image).collect(), ..Request::new("Look.") };
        world.agent.submit(USER, &world.key(), request, None).await.unwrap_err().to_string()
    };
    let large = refused(vec![("image/png", 8), ("image/png", 15 << 20)]).await;
    assert!(large.contains("picture 2") && large.contains("15728640 bytes"), "{large}");
    assert!(refused(vec![("image/svg+xml", 8)]).await.contains("PNG, JPEG, GIF and WebP"));
    assert!(refused(vec![("image/png", 8); 21]).await.contains("21 pictures"));
    assert!(refused(vec![("image/png", 5 << 20); 5]).await.contains("26214400 bytes"));
    assert_eq!(world.ask("Hello.").await.text(), "One.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_is_refused_is_told_with_a_way_out() {
    let overflow = "{ status: 400, error: { code: 'context_length_exceeded', message: 'Too long.' } }";
    let picture = "{ status: 400, error: { message: 'Could not process image.' } }";
    for (refusal, kind) in [(overflow, "context_overflow"), (picture, "bad_request")] {
        let world = world(&format!("{{ replies: [{refusal}] }}"), "");
        let outcome = world.ask("Hello.").await;
        assert_eq!((outcome.status, outcome.error_kind.as_deref()), (Status::Error, Some(kind)), "{outcome:?}");
        let error = outcome.error.unwrap();
        assert!(error.contains("/new") && error.contains("fork the session before"), "{error}");
    }
}
