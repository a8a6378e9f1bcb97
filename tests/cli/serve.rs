//! `serve`: what it reads, what it says, what it answers, how it ends.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Place, Ran, Running, http};

fn serving(place: &Place, more: &[&str]) -> Running {
    let mut arguments = vec!["serve", "--port", "0"];
    arguments.extend(more);
    place.start(&arguments)
}

#[test]
fn without_any_config_it_serves_and_says_how_to_go_on() {
    let place = Place::new();
    let mut serve = serving(&place, &[]);
    let address = serve.address();
    serve.until("simulate");
    for hint in [
        "claude mcp add --transport http t3code http://127.0.0.1:",
        "$(t3code-mcp token)",
        "[machines.mac]",
        "token_env",
    ] {
        assert!(serve.said.contains(hint), "{hint}: {}", serve.said);
    }
    let health = http(address, "GET /healthz HTTP/1.1\nHost: somewhere.example", "");
    assert!(health.starts_with("HTTP/1.1 200"), "{health}");
    assert!(health.ends_with(r#"{"machines":[],"status":"ok"}"#), "{health}");
}

#[test]
fn the_token_that_is_printed_opens_the_endpoint() {
    let place = Place::new();
    let mut serve = serving(&place, &[]);
    let address = serve.address();
    let line = serve.until("bearer:");
    let file = place.path("home/.local/state/t3code-mcp/bearer");
    assert!(line.contains(&file.display().to_string()), "{line}");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let token = place.run(&["token"]);
    assert_eq!(token.code, Some(0));
    let token = token.out.trim();
    assert!(!serve.said.contains(token));
    let ask = |authorization: &str| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
            "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
        let head = format!(
            "POST /mcp HTTP/1.1\nHost: {address}\nContent-Type: application/json\nAccept: application/json, text/event-stream{authorization}"
        );
        http(address, &head, &body.to_string())
    };
    assert!(ask("").starts_with("HTTP/1.1 401"));
    let answer = ask(&format!("\nAuthorization: Bearer {token}"));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("serverInfo"), "{answer}");
}

#[test]
fn it_stops_in_order_on_either_signal() {
    for signal in [Signal::TERM, Signal::INT] {
        let place = Place::new();
        let mut serve = serving(&place, &[]);
        let address = serve.address();
        http(address, "GET /healthz HTTP/1.1\nHost: x", "");
        serve.signal(signal);
        assert_eq!(serve.end(), Some(0), "{}", serve.said);
        assert!(!serve.said.contains("left before"), "{}", serve.said);
        assert!(serve.said.contains("stopped"), "{}", serve.said);
    }
}

#[test]
fn it_reads_a_trusted_env_file_and_says_so() {
    let place = Place::new().file("cwd/.env", "T3CODE_MCP_TOKEN=from-the-env-file-0123456789\n", 0o600);
    let mut serve = serving(&place, &[]);
    assert!(serve.until("read path=").contains("cwd/.env"));
    assert!(serve.until("bearer:").contains("T3CODE_MCP_TOKEN"));
    assert!(!serve.said.contains("from-the-env-file"));
}

#[test]
fn it_leaves_an_env_file_alone_that_others_can_write_and_says_so() {
    let place = Place::new().file("cwd/.env", "T3CODE_MCP_TOKEN=from-the-env-file-0123456789\n", 0o666);
    let mut serve = serving(&place, &[]);
    let line = serve.until("not read");
    assert!(line.contains("cwd/.env") && line.contains("chmod go-w"), "{line}");
    assert!(serve.until("bearer:").contains("t3code-mcp/bearer"));
}

#[test]
fn only_serve_and_doctor_read_the_env_file() {
    let place = Place::new().file("cwd/.env", "T3CODE_MCP_TOKEN=from-the-env-file-0123456789\n", 0o600);
    assert!(!place.run(&["token"]).out.contains("from-the-env-file"));
    assert!(
        place
            .run(&["token", "--env-file", ".env"])
            .out
            .contains("from-the-env-file")
    );
    assert!(place.run(&["doctor"]).out.contains("cwd/.env"));
}

#[test]
fn two_at_one_port_do_not_go_together_and_the_second_says_why() {
    let place = Place::new();
    let mut first = serving(&place, &[]);
    let port = first.address().port().to_string();
    let second = place.run(&["serve", "--port", &port]);
    assert_eq!(second.code, Some(1));
    assert!(second.err.contains("--port"), "{}", second.err);
}

#[test]
fn an_open_endpoint_must_be_meant() {
    let place = Place::new();
    let ran = place.run(&["serve", "--port", "0", "--host", "0.0.0.0", "--auth", "none"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("insecure = true"), "{}", ran.err);
    let mut meant = serving(&place, &["--host", "0.0.0.0", "--auth", "none", "--insecure"]);
    meant.until("may do everything");
}

#[test]
fn a_log_for_programs_is_json_line_by_line() {
    let place = Place::new();
    let mut serve = serving(&place, &["--log-format", "json"]);
    serve.until("listening");
    serve.signal(Signal::TERM);
    assert_eq!(serve.end(), Some(0));
    for line in serve.said.lines() {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(event["level"].is_string());
    }
}

#[test]
fn over_stdio_it_answers_and_reads_nothing_of_the_working_directory() {
    // Either file would end it with an error, or show in its log.
    let place = Place::new()
        .config("this is no config")
        .file("cwd/.env", "T3CODE_MCP_PORT=no-number\n", 0o600);
    let mut command = place.command(&["serve", "--stdio"]);
    command.stdin(Stdio::piped());
    let mut serve = Running::start(command);
    let mut stdin = serve.child.stdin.take().unwrap();
    let mut stdout = BufReader::new(serve.child.stdout.take().unwrap());
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
        "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    writeln!(stdin, "{hello}").unwrap();
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let answer: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(answer["result"]["serverInfo"]["name"], "t3code-mcp");
    drop(stdin);
    assert_eq!(serve.end(), Some(0), "{}", serve.said);
    assert!(!serve.said.contains("cwd"), "{}", serve.said);
    assert!(serve.said.contains("no machine is configured"), "{}", serve.said);
}

#[test]
fn over_stdio_a_signal_ends_it_though_stdin_stays_open() {
    let place = Place::new();
    let mut command = place.command(&["serve", "--stdio"]);
    command.stdin(Stdio::piped());
    let mut serve = Running::start(command);
    serve.until("no machine is configured");
    serve.signal(Signal::TERM);
    assert_eq!(serve.end(), Some(0), "{}", serve.said);
    assert!(!serve.said.contains("left before"), "{}", serve.said);
}

/// Where nothing can be written, and where reading has no end: both are this system's own.
#[cfg(target_os = "linux")]
#[test]
fn a_token_that_cannot_be_written_and_a_config_that_is_no_file_are_failures() {
    let place = Place::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = place.command(&["token"]).stdout(full).output().unwrap();
    let ran = Ran::from(output, &place);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("could not be written"), "{}", ran.err);
    for command in ["token", "doctor", "serve"] {
        let ran = place.run(&[command, "--config", "/dev/zero"]);
        assert_ne!(ran.code, Some(0));
        assert!((ran.err + &ran.out).contains("no regular file"), "{command}");
    }
}

#[test]
fn a_shell_with_few_open_files_does_not_bound_the_connections() {
    let place = Place::new();
    let mut command = std::process::Command::new("sh");
    let serve = place.command(&[]);
    command
        .args(["-c", "ulimit -S -n 256; exec \"$0\" serve --port 0"])
        .arg(serve.get_program())
        .env_clear()
        .env("HOME", place.path("home"))
        .current_dir(place.path("cwd"));
    let mut running = Running::start(command);
    running.until("listens on http://");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", running.child.id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let numbers: Vec<&str> = line.split_whitespace().collect();
    let (soft, hard) = (numbers[3], numbers[4]);
    assert!(soft == "16384" || soft == hard, "{line}");
}
