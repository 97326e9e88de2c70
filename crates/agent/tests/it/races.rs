//! What happens in the moments between two steps.

use pincer_tools::Answer;

use crate::world::{USER, calls, conversation, text, world};

const ASK: &str = "approvals: { rules: [{ match: 'plugin:test:*', decision: 'ask' }] }";

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_a_grant_allowed_is_not_made_again_after_a_crash() {
    for answer in [Answer::AllowAlways, Answer::AllowNext(2)] {
        let world = world(&conversation(&[calls(&[("gate", 1), ("gate", 2)]), text("I cannot know.")]), ASK);
        let run = world.send("Do it.").await;
        let outcome = world.outcome(&run).await;
        assert_eq!(outcome.approvals.len(), 2, "{outcome:?}");
        world.agent.answer(&outcome.approvals[0].approval_id, answer, "a person").await.unwrap();
        world.busy(2).await;
        world.dies().await;
        let other = world.another();
        other.gate.add_permits(10);
        other.agent.engage(USER, &other.key());
        let outcome = other.outcome(&run).await;
        assert_eq!(outcome.text(), "I cannot know.", "{outcome:?}");
        assert_eq!(other.effects.all(), [""; 0], "{answer:?}: both had begun");
    }
}
