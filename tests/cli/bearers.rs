//! Who gets in, as whom, and how far: the bearers of a gateway that runs.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Machine, Place, Running, call};

const KEPT: &str = "home/.local/state/t3code-mcp/bearer";
const GIVEN: &str = "given-token-0123456789";

fn end(mut running: Running) -> String {
    running.signal(Signal::TERM);
    assert_eq!(running.end(), Some(0), "{}", running.said);
    running.said.clone()
}

fn status(address: SocketAddr, token: &str) -> u16 {
    call(address, token, "t3_machines", &json!({})).0
}

/// The code that a failed call tells.
fn code((status, result): (u16, Value)) -> String {
    assert_eq!(status, 200);
    assert_eq!(result["isError"], true, "{result}");
    let error: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    error["code"].as_str().unwrap().to_owned()
}

#[test]
fn a_generated_bearer_is_kept_and_without_its_file_the_next_start_makes_another() {
    let place = Place::new();
    let token = || place.run(&["token"]).out.trim().to_owned();
    let (running, address) = place.serve(&[], &[]);
    let first = token();
    assert_eq!(status(address, &first), 200);
    let said = end(running);
    assert!(!said.contains(&first), "{said}");

    let (running, address) = place.serve(&[], &[]);
    assert_eq!(status(address, &first), 200);
    end(running);

    std::fs::remove_file(place.path(KEPT)).unwrap();
    let (running, address) = place.serve(&[], &[]);
    let second = token();
    assert_ne!(first, second);
    assert_eq!((status(address, &first), status(address, &second)), (401, 200));
    let mode = place.path(KEPT).metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    end(running);
}

#[test]
fn a_bearer_of_the_environment_takes_the_place_of_the_kept_one() {
    let place = Place::new();
    let kept = place.run(&["token"]).out.trim().to_owned();
    let (running, address) = place.serve(&[], &[("T3CODE_MCP_TOKEN", GIVEN)]);
    assert_eq!((status(address, GIVEN), status(address, &kept)), (200, 401));
    let mut printed = place.command(&["token", "--json"]);
    let printed = printed.env("T3CODE_MCP_TOKEN", GIVEN).output().unwrap().stdout;
    let printed: Value = serde_json::from_slice(&printed).unwrap();
    assert_eq!(printed, json!({"token": GIVEN, "from": "T3CODE_MCP_TOKEN"}));
    let said = end(running);
    assert!(!said.contains(GIVEN) && !said.contains(&kept), "{said}");
}

#[test]
fn named_clients_get_in_with_their_limits_and_are_named_in_the_log() {
    let machine = Machine::start();
    let url = machine.simulator.url();
    let place = Place::new().config(&format!(
        "[machines.sim]\nurl = \"{url}\"\ntoken_env = \"T3_TOKEN\"\nprojects = [\"*\"]\n\
         [machines.another]\nurl = \"http://127.0.0.1:1\"\ntoken_env = \"T3_TOKEN\"\nprojects = [\"*\"]\n\
         [server]\ndefault_bearer = false\n\
         [[server.client]]\nname = \"dispatcher\"\ntoken_env = \"DISPATCHER\"\nmax_runtime_mode = \"auto\"\n\
         [[server.client]]\nname = \"onlooker\"\ntoken_env = \"ONLOOKER\"\nread_only = true\n\
         [[server.client]]\nname = \"stranger\"\ntoken_env = \"STRANGER\"\nmachines = [\"another\"]\n\
         [[server.client]]\nname = \"neighbour\"\ntoken_env = \"NEIGHBOUR\"\nprojects = [\"web-*\"]\n"
    ));
    let [dispatcher, onlooker, stranger, neighbour] = ["d", "o", "s", "n"].map(|name| name.repeat(24));
    let (running, address) = place.serve(
        &["--max-mode", "auto-accept-edits"],
        &[
            ("T3_TOKEN", "any"),
            ("T3CODE_MCP_TOKEN", GIVEN),
            ("DISPATCHER", &dispatcher),
            ("ONLOOKER", &onlooker),
            ("STRANGER", &stranger),
            ("NEIGHBOUR", &neighbour),
        ],
    );
    assert_eq!(status(address, GIVEN), 401, "the default bearer is switched off");
    let dispatch =
        |mode: &str| json!({"machine": "sim", "project": "t3-smoke", "prompt": "say x", "runtime_mode": mode});
    // The operator's ceiling for all is below the client's own.
    for (token, mode, refused) in [
        (&dispatcher, "auto", "runtime_mode_escalation_denied"),
        (&dispatcher, "full-access", "runtime_mode_escalation_denied"),
        (&onlooker, "approval-required", "insufficient_scope"),
        (&stranger, "approval-required", "unknown_machine"),
        (&neighbour, "approval-required", "project_not_found"),
    ] {
        let told = code(call(address, token, "t3_dispatch", &dispatch(mode)));
        assert_eq!(told, refused, "{mode}");
    }
    let (_, done) = call(address, &dispatcher, "t3_dispatch", &dispatch("auto-accept-edits"));
    assert_eq!(done["structuredContent"]["runtime_mode"], "auto-accept-edits", "{done}");
    let default = json!({"machine": "sim", "project": "t3-smoke", "prompt": "say y"});
    let (_, done) = call(address, &dispatcher, "t3_dispatch", &default);
    assert_eq!(done["structuredContent"]["runtime_mode"], "auto-accept-edits", "{done}");
    let said = end(running);
    for name in ["dispatcher", "onlooker", "stranger", "neighbour"] {
        let line = said
            .lines()
            .find(|line| line.contains("t3_dispatch") && line.contains(name));
        assert!(line.is_some(), "{name}: {said}");
    }
    for token in [&dispatcher, &onlooker, &stranger, &neighbour] {
        assert!(!said.contains(token.as_str()));
    }
}

#[test]
fn over_stdio_a_hostile_folder_adds_no_machine_and_sets_nothing() {
    let trap = TcpListener::bind("127.0.0.1:0").unwrap();
    trap.set_nonblocking(true).unwrap();
    let url = format!("http://{}", trap.local_addr().unwrap());
    let place = Place::new()
        .config(&format!(
            "[machines.trap]\nurl = \"{url}\"\ntoken_env = \"T3_TOKEN\"\nprojects = [\"*\"]\n[hook]\nurl = \"{url}/hook\"\n"
        ))
        .file(
            "cwd/.env",
            &format!(
                "T3_TOKEN=stolen\nT3_PAIRING_URL={url}/pair#token=ABCDEFGHJKLM\nT3CODE_MCP_HOOK_URL={url}/hook\n\
                 T3CODE_MCP_CONFIG=t3code.toml\nT3CODE_MCP_STATE=state\nT3CODE_MCP_TOKEN={GIVEN}\n"
            ),
            0o600,
        );
    let mut command = place.command(&["serve", "--stdio"]);
    command.stdin(Stdio::piped());
    let mut running = Running::start(command);
    let mut stdin = running.child.stdin.take().unwrap();
    let mut lines = BufReader::new(running.child.stdout.take().unwrap()).lines();
    let hello =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
    for message in [
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t3_machines", "arguments": {}}}),
    ] {
        writeln!(stdin, "{message}").unwrap();
    }
    let answer = lines
        .find_map(|line| {
            let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
            (message["id"] == 1).then_some(message)
        })
        .unwrap();
    assert_eq!(
        answer["result"]["structuredContent"],
        json!({"machines": []}),
        "{answer}"
    );
    drop(stdin);
    assert_eq!(running.end(), Some(0), "{}", running.said);
    assert!(
        !running.said.contains("trap") && !running.said.contains("cwd"),
        "{}",
        running.said
    );
    let came = trap.accept();
    assert!(came.is_err(), "somebody called: {came:?}");
    assert!(!place.path("cwd/state").exists());
    assert_ne!(place.run(&["token"]).out.trim(), GIVEN);
}
