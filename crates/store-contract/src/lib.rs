//! The contract of every store, as tests that need nothing but a way to open a fresh store.
//!
//! The tests of a database call [`contract!`] with an expression of type [`Fresh`]. Each case becomes a test of its own:
//!
//! ```text
//! pincer_store_contract::contract!(Fresh::new(|| {
//!     let directory = tempfile::tempdir().expect("a directory");
//!     Box::new(move || Box::new(SqliteStore::open(&directory.path().join("pincer.db")).expect("a store")))
//! }));
//! ```
#![allow(clippy::expect_used, clippy::missing_panics_doc, reason = "a test fails by panicking")]
#![allow(missing_docs, reason = "the name of a case is what it checks")]

pub mod approvals;
mod blocking;
pub mod calls;
pub mod listings;
pub mod replies;
pub mod runs;
pub mod words;

use pincer_store::Store;

pub use blocking::Blocking;

/// Opens one store again and again, as several processes do. It is gone when this is dropped.
pub type Open = Box<dyn Fn() -> Box<dyn Store>>;

/// Makes fresh stores.
pub struct Fresh(fn() -> Open);

impl Fresh {
    /// Each call of `fresh` makes another store, which is empty.
    pub fn new(fresh: fn() -> Open) -> Self {
        Self(fresh)
    }

    /// Runs a test on a store that is empty.
    pub fn with_store(&self, test: impl FnOnce(Blocking<'_>)) {
        test(Blocking(&*(self.0)()()));
    }

    /// Runs a test on an empty store that two processes have open.
    pub fn with_two(&self, test: impl FnOnce(Blocking<'_>, Blocking<'_>)) {
        let open = (self.0)();
        test(Blocking(&*open()), Blocking(&*open()));
    }

    /// Opens a store that is empty.
    pub fn open(&self) -> Open {
        (self.0)()
    }
}

/// Makes a test of every case. The argument is an expression of type [`Fresh`].
#[macro_export]
macro_rules! contract {
    ($fresh:expr) => {
        $crate::contract! { @cases $fresh,
            approvals::questions_are_stored_before_they_are_answered,
            approvals::the_question_of_a_call_is_found_by_its_run_and_number,
            approvals::an_answer_without_a_run_is_used_once,
            approvals::the_first_answer_wins_in_every_order,
            approvals::an_answer_and_what_it_grants_are_one_step,
            approvals::grants_hold_for_their_tool_as_it_was,
            approvals::questions_of_earlier_versions_cover_their_call_whatever_the_tool_is_now,
            calls::calls_settle_once_and_in_an_order,
            calls::places_among_settled_calls_are_given_across_processes,
            calls::a_call_belongs_to_the_process_that_makes_it_even_when_the_run_has_another_owner,
            calls::what_came_of_a_call_is_stored_after_the_end_of_its_run_too,
            calls::a_call_with_an_effect_must_be_part_of_the_stored_checkpoint,
            calls::a_call_may_retire_the_checkpoint_that_does_not_cover_it,
            calls::the_checkpoint_of_a_run_that_waits_is_not_retired,
            calls::a_checkpoint_older_than_an_effect_is_refused,
            calls::an_answer_is_for_one_call_of_one_run,
            calls::a_counted_grant_is_used_in_the_commit_of_the_call,
            calls::a_standing_grant_must_still_be_there,
            calls::old_calls_are_forgotten_but_none_that_a_checkpoint_waits_for,
            listings::pages_follow_each_other_without_gaps,
            listings::runs_are_found_by_the_beginning_of_their_ids,
            listings::sessions_and_states_are_counted,
            listings::the_next_due_is_the_first_to_expire_or_to_be_forgotten,
            listings::what_belongs_to_a_forgotten_run_goes_with_it_and_nothing_else,
            replies::what_was_asked_for_is_stored_when_the_reply_is_dropped,
            replies::a_run_is_resumed_from_one_moment,
            replies::changes_of_another_process_are_noticed,
            runs::runs_are_made_listed_and_ended,
            runs::a_run_can_be_made_with_its_first_checkpoint,
            runs::only_one_takes_a_run_over_and_the_old_owner_can_change_nothing,
            runs::every_claim_gets_a_new_proof_and_states_what_it_saw,
            runs::the_end_of_a_run_takes_its_proof_away,
            runs::a_parked_run_waits_and_its_snapshot_goes_with_it,
            runs::deltas_follow_the_whole_cell_in_order,
            runs::a_run_whose_process_is_gone_waits_if_it_has_a_checkpoint,
            runs::runs_that_wait_too_long_expire_and_cannot_be_continued,
            runs::an_aborted_run_leaves_nothing_behind,
            runs::as_many_wait_as_may_and_the_others_are_told_who_does,
            runs::the_right_to_be_suspended_is_had_until_the_end_and_shared_by_users,
            runs::images_are_kept_while_a_snapshot_needs_them,
            runs::sets_of_tools_are_kept_while_a_run_needs_them,
            runs::a_key_begins_one_run_per_caller_and_session,
            runs::an_idempotency_key_belongs_to_the_request_that_came_first,
            runs::all_connections_go_by_one_clock,
            runs::a_run_of_this_boot_was_not_cut_off,
        }
    };
    (@cases $fresh:expr, $($module:ident::$case:ident,)+) => {$(
        #[test]
        fn $case() {
            $crate::$module::$case(&$fresh);
        }
    )+};
}

#[cfg(test)]
mod tests {
    /// A case that is not in the list would never run.
    #[test]
    fn every_case_is_listed() {
        let list = include_str!("lib.rs");
        let modules = [
            ("approvals", include_str!("approvals.rs")),
            ("calls", include_str!("calls.rs")),
            ("listings", include_str!("listings.rs")),
            ("replies", include_str!("replies.rs")),
            ("runs", include_str!("runs.rs")),
        ];
        for (module, text) in modules {
            for line in text.lines().filter_map(|line| line.strip_prefix("pub fn ")) {
                if let Some((name, _)) = line.split_once("(fresh: &Fresh)") {
                    assert!(list.contains(&format!("{module}::{name},")), "{module}::{name}");
                }
            }
        }
    }
}
