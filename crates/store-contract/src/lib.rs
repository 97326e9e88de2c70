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

pub mod agent_programs;
pub mod agent_runs;
pub mod approvals;
mod blocking;
mod blocking_deliveries;
mod blocking_sessions;
pub mod calls;
pub mod client_calls;
pub mod cron_history;
pub mod cron_jobs;
pub mod deliveries;
pub mod drafts;
pub mod figures;
pub mod instructions;
pub mod listings;
pub mod outlines;
pub mod recordings;
pub mod replies;
pub mod runs;
pub mod session_words;
pub mod session_writers;
pub mod sessions;
pub mod transcripts;
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
            agent_programs::a_program_of_an_open_run_neither_expires_nor_is_forgotten,
            agent_programs::programs_end_in_the_commit_that_ends_their_run,
            agent_programs::the_time_of_programs_stands_still_while_no_process_works_on_their_run,
            agent_runs::messages_are_in_the_order_in_which_they_were_accepted,
            agent_runs::few_messages_that_were_left_out_are_kept_and_little_of_each,
            agent_runs::a_session_is_woken_when_its_run_has_what_it_waits_for,
            agent_runs::a_message_is_accepted_once_per_key,
            agent_runs::a_message_makes_its_session_once,
            agent_runs::a_message_with_its_answer_has_ended_when_it_is_stored,
            agent_runs::a_full_queue_does_as_it_is_told,
            agent_runs::open_runs_are_in_the_order_in_which_they_are_due,
            agent_runs::a_run_that_was_left_out_is_open_until_a_run_is_told_of_it,
            agent_runs::a_run_begins_once_and_ends_once,
            agent_runs::a_run_that_has_ended_never_changes_again,
            agent_runs::what_a_run_was_given_goes_with_its_end,
            agent_runs::a_run_is_stopped_at_once_only_before_it_begins,
            agent_runs::runs_of_a_session_are_listed_the_latest_first,
            approvals::questions_are_stored_before_they_are_answered,
            approvals::the_question_of_a_call_is_found_by_its_run_and_number,
            approvals::an_answer_without_a_run_is_used_once,
            approvals::the_first_answer_wins_in_every_order,
            approvals::an_answer_and_what_it_grants_are_one_step,
            approvals::grants_hold_for_their_tool_as_it_was,
            approvals::questions_of_earlier_versions_cover_their_call_whatever_the_tool_is_now,
            approvals::the_questions_of_a_run_are_listed_unless_withdrawn,
            approvals::a_permission_is_spent_for_one_call,
            calls::calls_settle_once_and_in_an_order,
            calls::a_call_keeps_its_line_and_the_time_when_it_was_last_made,
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
            client_calls::a_call_of_a_client_is_asked_once,
            client_calls::the_first_answer_of_a_client_wins,
            cron_history::a_time_is_run_for_once_however_many_look,
            cron_history::a_run_that_has_not_ended_keeps_the_next_one_from_beginning,
            cron_history::the_end_of_a_run_is_part_of_the_history_in_the_same_commit,
            cron_history::failures_in_a_row_turn_a_job_off,
            cron_history::a_time_that_is_skipped_is_part_of_the_history,
            cron_history::a_job_that_has_run_for_the_last_time_is_removed_unless_that_failed,
            cron_history::a_history_is_bounded_and_takes_its_sessions_along,
            cron_history::a_full_queue_is_part_of_the_history,
            cron_jobs::a_job_is_stored_found_changed_and_removed,
            cron_jobs::a_name_belongs_to_one_job_of_a_user,
            cron_jobs::a_job_is_found_by_the_beginning_of_its_id,
            cron_jobs::jobs_are_listed_in_pages_without_gaps,
            cron_jobs::agents_make_as_many_jobs_as_they_may,
            cron_jobs::of_each_user_the_job_that_is_due_for_longest_is_found,
            cron_jobs::jobs_that_are_off_or_over_are_not_due,
            deliveries::a_delivery_is_stored_once_per_key,
            deliveries::deliveries_of_a_route_come_one_after_the_other,
            deliveries::a_delivery_is_in_the_hands_of_one_process,
            deliveries::a_delivery_is_cancelled_until_it_has_ended,
            deliveries::deliveries_are_part_of_the_commit_that_makes_them_due,
            deliveries::a_full_route_refuses_deliveries_and_takes_the_end_of_a_run,
            deliveries::deliveries_are_listed_and_forgotten,
            deliveries::deliveries_fail_when_their_time_is_over,
            drafts::a_draft_is_seen_when_it_is_published_and_not_before,
            drafts::a_message_under_the_key_of_a_draft_is_never_lost,
            drafts::drafts_of_one_key_do_not_disturb_each_other,
            figures::figures_are_read_in_pages_by_user_session_and_time,
            figures::figures_take_the_place_of_those_before_and_go_with_the_run,
            instructions::the_skills_of_a_session_are_its_own_and_are_stored_by_its_writer,
            instructions::a_workspace_has_begun_for_all_sessions_with_the_commit_that_says_so,
            instructions::a_frame_is_stored_when_it_changes_and_sessions_share_its_body,
            listings::pages_follow_each_other_without_gaps,
            listings::runs_are_found_by_the_beginning_of_their_ids,
            listings::sessions_and_states_are_counted,
            listings::the_next_due_is_the_first_to_expire_or_to_be_forgotten,
            listings::what_belongs_to_a_forgotten_run_goes_with_it_and_nothing_else,
            outlines::a_session_is_read_without_its_texts_and_then_in_parts,
            outlines::the_questions_of_a_session_are_found_by_the_times_at_which_they_were_asked,
            recordings::a_recording_grows_with_the_commits_of_its_run,
            recordings::a_run_that_begins_anew_is_recorded_anew,
            recordings::a_commit_that_is_refused_records_nothing,
            recordings::a_text_is_kept_once_and_goes_with_the_last_run_that_names_it,
            recordings::the_recorded_runs_of_an_agents_run_and_of_a_session_are_listed,
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
            runs::the_open_programs_of_an_agents_run_are_listed,
            session_writers::two_writers_never_mix_in_any_order,
            sessions::a_key_has_one_current_session_per_user,
            sessions::awkward_keys_are_never_mixed_up,
            sessions::only_one_of_two_claimants_gets_a_session,
            sessions::a_stale_writer_can_store_nothing,
            sessions::a_commit_is_stored_as_a_whole_or_not_at_all,
            sessions::a_release_ends_the_proof_of_its_writer,
            sessions::figures_and_times_add_up,
            sessions::a_reset_begins_another_session_under_the_same_key,
            sessions::a_session_is_renamed,
            sessions::settings_are_those_of_the_current_session,
            sessions::a_deleted_session_takes_all_that_is_of_it_along,
            sessions::a_session_with_a_message_that_has_not_ended_is_not_deleted,
            sessions::sessions_are_listed_in_pages_without_gaps,
            sessions::only_sessions_without_a_writer_and_work_are_forgotten,
            transcripts::entries_are_stored_as_they_were_given,
            transcripts::entries_are_attached_where_they_are_told,
            transcripts::an_entry_needs_a_parent_before_it_and_an_id_of_its_own,
            transcripts::the_context_is_the_branch_in_use_without_nested_calls,
            transcripts::the_context_begins_where_it_is_told,
            transcripts::a_fork_is_the_branch_that_ends_with_an_entry,
            transcripts::a_fork_is_compacted_as_its_branch_was,
            transcripts::entries_are_found_by_the_beginning_of_their_ids,
            transcripts::entries_are_found_by_their_words,
            transcripts::entries_of_many_sessions_are_found_the_latest_first,
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
            ("agent_programs", include_str!("agent_programs.rs")),
            ("agent_runs", include_str!("agent_runs.rs")),
            ("approvals", include_str!("approvals.rs")),
            ("calls", include_str!("calls.rs")),
            ("client_calls", include_str!("client_calls.rs")),
            ("cron_history", include_str!("cron_history.rs")),
            ("cron_jobs", include_str!("cron_jobs.rs")),
            ("deliveries", include_str!("deliveries.rs")),
            ("drafts", include_str!("drafts.rs")),
            ("listings", include_str!("listings.rs")),
            ("replies", include_str!("replies.rs")),
            ("runs", include_str!("runs.rs")),
            ("session_writers", include_str!("session_writers.rs")),
            ("sessions", include_str!("sessions.rs")),
            ("transcripts", include_str!("transcripts.rs")),
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
