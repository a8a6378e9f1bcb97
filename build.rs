//! Generates Rust from `schemas/`: one line a product, the work is done in `build/`.
//!
//! Depends on nothing outside the repository, and runs again only when a schema or a file of `build/` changes.

// Tests compile it too, there as a part of another crate; the lifecycle's table is checked by itself and with the contract.
#[allow(clippy::duplicate_mod, dead_code, unreachable_pub)]
#[path = "build/mod.rs"]
mod build;

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build");
    // Not all of `schemas`: the exporter's packages would be walked each time.
    for schemas in ["t3", "selection.toml", "selection-protocol-1.toml", "lifecycle.toml"] {
        println!("cargo:rerun-if-changed=schemas/{schemas}");
    }
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    match products(&root, &out) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("\n{message}\n");
            ExitCode::FAILURE
        }
    }
}

/// Everything that is generated. An error is a text for the person who changed a schema.
fn products(root: &std::path::Path, out: &std::path::Path) -> Result<(), String> {
    build::check(root)?;
    build::protocol(root, out).map_err(|error| error.to_string())?;
    build::lifecycle::build(root, out).map_err(|error| error.to_string())?;
    Ok(())
}
