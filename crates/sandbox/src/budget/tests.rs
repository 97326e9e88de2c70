use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn user(name: &str) -> Arc<str> {
    name.into()
}

/// A growth that waits, and takes no notice of being woken up.
fn asks<'a>(allotment: &'a mut Allotment, bytes: usize) -> Option<Growth<'a>> {
    let mut growth = allotment.grow(bytes);
    if growth.is_granted(Waker::noop()) { None } else { Some(growth) }
}

fn has(growth: &mut Growth<'_>) -> bool {
    growth.is_granted(Waker::noop())
}

#[test]
fn what_is_taken_is_counted_and_comes_back() {
    let budget = MemoryBudget::new(100);
    let mut a = budget.open(&user("a"), 5, 50);
    assert!(a.try_grow(10) && a.try_grow(30) && a.try_grow(20));
    assert_eq!((budget.used(), budget.peak()), (35, 35));
    a.shrink(3);
    assert_eq!((budget.used(), budget.peak()), (3, 35));
    assert!(!a.could_ever_have(51) && a.could_ever_have(50));
    drop(a);
    let state = budget.0.lock();
    assert_eq!((state.used, state.cells.len(), state.users.len(), state.waiting.len()), (0, 0, 0, 0));
}

#[test]
fn a_growth_waits_until_another_cell_gives_memory_back() {
    let budget = MemoryBudget::new(100);
    let told = Arc::new(AtomicUsize::new(0));
    let tell = Arc::clone(&told);
    budget.on_shortage(move |wanted| tell.store(wanted, Ordering::SeqCst));
    let (mut a, mut b) = (budget.open(&user("a"), 0, 60), budget.open(&user("b"), 0, 60));
    assert!(a.try_grow(60) && b.try_grow(40) && !b.try_grow(41));
    let mut growth = asks(&mut b, 60).unwrap();
    assert_eq!((told.load(Ordering::SeqCst), budget.wanted()), (20, 20));
    assert!(!has(&mut growth));
    drop(a);
    assert!(has(&mut growth));
    drop(growth);
    assert_eq!((budget.used(), budget.peak(), budget.wanted()), (60, 100, 0));
}

#[test]
fn a_request_that_is_taken_back_leaves_nothing_behind() {
    let budget = MemoryBudget::new(100);
    let (mut a, mut b) = (budget.open(&user("a"), 0, 100), budget.open(&user("b"), 0, 100));
    assert!(a.try_grow(100));
    drop(asks(&mut b, 10).unwrap());
    assert_eq!(budget.wanted(), 0);
    drop(a);
    assert_eq!(budget.used(), 0, "nothing is granted to a request that is gone");
}

#[test]
fn cells_never_come_to_wait_for_each_other() {
    // Ten cells that grow by one each in turn. Without care all would have 10 and none its 40.
    let budget = MemoryBudget::new(100);
    let mut cells: Vec<Option<Allotment>> = (0..10).map(|_| Some(budget.open(&user("a"), 0, 40))).collect();
    let mut held = [0; 10];
    while cells.iter().any(Option::is_some) {
        let mut moved = false;
        for (cell, held) in cells.iter_mut().zip(&mut held) {
            let Some(allotment) = cell else { continue };
            if allotment.try_grow(*held + 1) {
                (*held, moved) = (*held + 1, true);
            }
            if *held == 40 {
                *cell = None;
            }
        }
        assert!(moved, "all of them wait");
    }
    assert_eq!(budget.used(), 0);
    assert!(budget.peak() <= 100);
}

#[test]
fn cells_with_different_limits_and_users_never_come_to_wait_for_each_other() {
    let budget = MemoryBudget::new(100);
    let most = [100, 7, 55, 90, 30, 30, 64, 12];
    let mut cells: Vec<Option<Allotment>> =
        most.iter().enumerate().map(|(n, most)| Some(budget.open(&user(["a", "b", "c"][n % 3]), 0, *most))).collect();
    let (mut held, mut steps) = ([0; 8], 0_usize);
    while cells.iter().any(Option::is_some) {
        let mut moved = false;
        for n in 0..8 {
            let Some(allotment) = &mut cells[n] else { continue };
            steps += 1;
            let to = most[n].min(held[n] + 1 + steps % 5);
            if allotment.try_grow(to) {
                (held[n], moved) = (to, true);
            }
            if held[n] == most[n] {
                cells[n] = None;
            }
        }
        assert!(moved, "all of them wait");
    }
    assert!(budget.peak() <= 100 && budget.used() == 0);
}

#[test]
fn a_user_leaves_a_quarter_to_others_but_one_cell_always_gets_on() {
    let budget = MemoryBudget::new(400);
    let mut cells: Vec<Allotment> = (0..8).map(|_| budget.open(&user("a"), 0, 60)).collect();
    let full = cells.iter_mut().filter_map(|cell| cell.try_grow(60).then_some(())).count();
    assert_eq!((full, budget.used()), (5, 300));
    let mut other = budget.open(&user("b"), 0, 60);
    assert!(other.try_grow(60));
    drop(other);
    assert!(cells[0].try_grow(60));
    drop(cells.drain(..5));
    // The next ones of the same user.
    assert!(cells.iter_mut().all(|cell| cell.try_grow(60)));
}

#[test]
fn later_requests_of_a_user_wait_behind_earlier_ones_and_others_do_not() {
    let budget = MemoryBudget::new(100);
    let (mut a, mut b) = (budget.open(&user("a"), 0, 100), budget.open(&user("a"), 0, 100));
    let (mut c, mut d) = (budget.open(&user("a"), 0, 100), budget.open(&user("d"), 0, 10));
    assert!(a.try_grow(50));
    let mut large = asks(&mut b, 80).unwrap();
    assert!(!c.try_grow(1), "it does not overtake");
    assert!(d.try_grow(10));
    let mut small = asks(&mut c, 1).unwrap();
    drop(a);
    assert!(has(&mut large) && !has(&mut small));
    drop(large);
    drop(b);
    assert!(has(&mut small));
}

#[test]
fn a_thread_that_waits_is_woken_up() {
    let budget = MemoryBudget::new(10);
    let (mut a, mut b) = (budget.open(&user("a"), 0, 10), budget.open(&user("b"), 0, 10));
    assert!(a.try_grow(10));
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let mut growth = b.grow(10);
            while !growth.wait(Duration::from_secs(60)) {}
        });
        while budget.wanted() == 0 {
            thread::yield_now();
        }
        drop(a);
        waits.join().unwrap();
    });
    assert_eq!(budget.used(), 10);
}

#[test]
fn a_cell_between_two_turns_holds_up_nobody_but_its_own_user() {
    let budget = MemoryBudget::new(128);
    let (mut large, mut second) = (budget.open(&user("a"), 0, 66), budget.open(&user("a"), 0, 66));
    assert!(large.try_grow(62));
    large.rest();
    let mut held = 0;
    while second.try_grow(held + 1) {
        held += 1;
    }
    assert_eq!(held, 34, "a user has three quarters");
    let mut other = budget.open(&user("b"), 0, 66);
    assert!(other.try_grow(20) && other.try_grow(32) && !other.try_grow(33));
    assert!(!large.claim());
    drop(other);
    assert!(large.claim());
}

#[test]
fn a_claim_that_could_leave_cells_waiting_for_each_other_is_refused() {
    let budget = MemoryBudget::new(100);
    let mut cells: Vec<Allotment> = (0..4).map(|_| budget.open(&user("a"), 0, 60)).collect();
    for cell in &mut cells {
        assert!(cell.try_grow(18));
        cell.rest();
    }
    // One of them can have what the others leave, and two could come to wait for each other.
    assert!(cells[0].claim() && cells[0].claim() && !cells[1].claim());
    cells[0].rest();
    assert!(cells[1].claim());
}
