//! The rules of the house, held by reading the source: rooms depend downwards only, the deciding cores do no I/O and read no clock, and
//! `lib.rs` declares modules and nothing else.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Each room, and the rooms that it may use.
const MAY_USE: &[(&str, &[&str])] = &[
    ("protocol", &[]),
    ("outbound", &[]),
    ("schema", &[]),
    ("config", &["outbound", "protocol"]),
    ("lifecycle", &["protocol"]),
    ("simulator", &["protocol"]),
    ("machine", &["lifecycle", "protocol", "config", "outbound"]),
    ("store", &["lifecycle", "protocol"]),
    ("delivery", &["store", "protocol", "config", "outbound"]),
    ("fleet", &["machine", "lifecycle", "protocol", "config"]),
    (
        "gateway",
        &["fleet", "store", "machine", "lifecycle", "protocol", "config"],
    ),
    (
        "watch",
        &[
            "gateway",
            "fleet",
            "store",
            "machine",
            "lifecycle",
            "protocol",
            "config",
        ],
    ),
    (
        "mcp",
        &[
            "gateway",
            "fleet",
            "store",
            "machine",
            "lifecycle",
            "protocol",
            "config",
        ],
    ),
    (
        "http",
        &["mcp", "gateway", "fleet", "machine", "lifecycle", "protocol", "config"],
    ),
    (
        "cli",
        &[
            "schema",
            "http",
            "mcp",
            "watch",
            "delivery",
            "gateway",
            "fleet",
            "store",
            "machine",
            "lifecycle",
            "simulator",
            "protocol",
            "config",
        ],
    ),
];

/// Files and folders whose code is told everything it needs, time included.
const PURE: &[&str] = &[
    "lifecycle",
    "protocol",
    "machine/expiry",
    "machine/session",
    "config/link",
    "delivery/schedule",
    "delivery/classify",
];

/// What reaches out of a pure room.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::env",
    "std::thread",
    "tokio::",
    "reqwest",
    "Instant::now",
    "SystemTime",
    "Timestamp::now",
    "Zoned::now",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Every source file, by its path below `src`.
fn sources() -> BTreeMap<String, String> {
    fn walk(folder: &Path, found: &mut BTreeMap<String, String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let name = path.strip_prefix(root()).unwrap().display().to_string();
                found.insert(name, std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(&root(), &mut found);
    found
}

/// The code without its comments. (No string of ours holds `//` and a room's path behind it.)
fn code(text: &str) -> String {
    text.lines()
        .map(|line| line.split("//").next().unwrap_or(line))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The first names behind each `crate::`, those in braces too.
fn rooms_named(code: &str) -> BTreeSet<String> {
    let word = |text: &str| {
        text.chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect::<String>()
    };
    let mut named = BTreeSet::new();
    for (at, matched) in code.match_indices("crate::") {
        // `t3code_mcp::crate::` does not exist, but `$crate::` does.
        let rest = &code[at + matched.len()..];
        let Some(group) = rest.strip_prefix('{') else {
            named.insert(word(rest));
            continue;
        };
        let mut depth = 0_usize;
        let mut item = String::new();
        for c in group.chars() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    named.insert(word(item.trim()));
                    item.clear();
                }
                c => item.push(c),
            }
        }
        if !item.trim().is_empty() {
            named.insert(word(item.trim()));
        }
    }
    named
}

/// The room of a file.
fn room(file: &str) -> &str {
    file.split(['/', '.']).next().unwrap_or(file)
}

#[test]
fn names_behind_crate_are_found_in_every_form() {
    let code = "use crate::mcp::Server; let x = crate::gateway::f(); use crate::{fleet::{A, B}, http, protocol::C};";
    let named: Vec<String> = rooms_named(code).into_iter().collect();
    assert_eq!(named, ["fleet", "gateway", "http", "mcp", "protocol"]);
}

#[test]
fn rooms_depend_downwards_only() {
    let allowed: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        let room = room(&file).to_owned();
        if matches!(room.as_str(), "lib" | "main") {
            continue;
        }
        let Some(allowed) = allowed.get(room.as_str()) else {
            wrong.push(format!(
                "src/{file}: the room `{room}` stands in no layer. Add it to this test, where design says"
            ));
            continue;
        };
        for named in rooms_named(&code(&text)) {
            if named != room && !allowed.contains(&named.as_str()) {
                wrong.push(format!("src/{file} uses crate::{named}, which `{room}` may not"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_layers_themselves_point_downwards() {
    let order: Vec<&str> = MAY_USE.iter().map(|(room, _)| *room).collect();
    for (index, (room, uses)) in MAY_USE.iter().enumerate() {
        for used in *uses {
            assert!(order[..index].contains(used), "{room} uses {used}");
        }
    }
}

#[test]
fn the_deciding_cores_do_no_io_and_read_no_clock() {
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for (file, text) in sources() {
        let Some(pure) = PURE
            .iter()
            .find(|pure| file.starts_with(&format!("{pure}/")) || file == format!("{pure}.rs"))
        else {
            continue;
        };
        seen.insert(*pure);
        if file.ends_with("/tests.rs") {
            continue;
        }
        let code = code(&text);
        // Tests may read recordings.
        let code = code.split("#[cfg(test)]").next().unwrap_or_default();
        wrong.extend(
            IMPURE
                .iter()
                .filter(|word| code.contains(**word))
                .map(|word| format!("src/{file} says {word}")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(seen.len(), PURE.len(), "a pure room was moved: {seen:?}");
}

#[test]
fn the_root_declares_modules_and_nothing_else() {
    for line in code(&sources()["lib.rs"])
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        assert!(line.starts_with("pub mod ") && line.ends_with(';'), "lib.rs: {line}");
    }
}
