//! Bundles of sessions that a test has stored, in a real store.

mod damage;
mod export;
mod secrets;
mod size;
mod world;
