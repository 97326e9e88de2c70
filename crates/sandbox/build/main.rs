//! Fetches the JavaScript engine into the build directory, once, and verified.
#![allow(clippy::print_stdout, reason = "this is how a build script talks to cargo")]

mod fetch;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    println!("cargo::rerun-if-env-changed={}", fetch::OVERRIDE);
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=engine");
    // Cargo sets both for build scripts.
    let directory = |name: &str| env::var_os(name).map(PathBuf::from).unwrap_or_default();
    let manifest = directory("CARGO_MANIFEST_DIR").join("engine");
    let named = env::var_os(fetch::OVERRIDE);
    if let Some(path) = &named {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    match fetch::fetch(&manifest, &directory("OUT_DIR"), "npm".as_ref(), named.as_deref()) {
        Ok(wasm) => {
            println!("cargo::rustc-env=PINCER_ENGINE_WASM={}", wasm.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            // `cargo::error` shows one line each, in colour, without the rest of this script's output.
            for line in error.to_string().lines() {
                println!("cargo::error={line}");
            }
            ExitCode::FAILURE
        }
    }
}
