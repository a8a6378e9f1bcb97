//! The whole way from files, variables and flags to a `Config`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use secrecy::ExposeSecret as _;
use tempfile::TempDir;

use super::*;

/// A place to load from: a working directory, a home, variables and flags.
struct Trial {
    root: TempDir,
    variables: Vec<(String, String)>,
    request: Request,
}

impl Trial {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for folder in ["cwd", "home"] {
            std::fs::create_dir(root.path().join(folder)).unwrap();
        }
        let request = Request {
            config: None,
            env_file: None,
            flags: BTreeMap::new(),
            directory: root.path().join("cwd"),
            working_directory: WorkingDirectory::ConfigAndEnv,
        };
        let home = root.path().join("home").display().to_string();
        Self {
            root,
            variables: vec![("HOME".to_owned(), home)],
            request,
        }
    }

    fn file(self, name: &str, text: &str) -> Self {
        self.file_with_mode(name, text, 0o600)
    }

    fn file_with_mode(self, name: &str, text: &str, mode: u32) -> Self {
        let path = self.root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        self
    }

    fn config(self, text: &str) -> Self {
        self.file("cwd/t3code.toml", text)
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    fn flag(mut self, name: &'static str, value: &str) -> Self {
        self.request.flags.insert(name, value.to_owned());
        self
    }

    fn named(mut self, path: &str) -> Self {
        self.request.config = Some(path.into());
        self
    }

    fn stdio(mut self) -> Self {
        self.request.working_directory = WorkingDirectory::Closed;
        self
    }

    fn load(&self) -> Result<Config, ConfigErrors> {
        load(&self.request, Environment::from_pairs(self.variables.clone()))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// What is said, without the folder's name, which is another in each run.
    fn complaint(&self) -> String {
        let said = self.load().unwrap_err().to_string();
        said.replace(&self.root.path().display().to_string(), "")
    }
}

const MACHINE: &str =
    "[machines.mac]\nurl = \"http://100.64.0.7:3773\"\ntoken_env = \"T3_MAC_TOKEN\"\nprojects = [\"*\"]\n";

fn with_machine(rest: &str) -> Trial {
    Trial::new()
        .config(&format!("{MACHINE}{rest}"))
        .variable("T3_MAC_TOKEN", "t3-mac-token-0123456789")
}

#[test]
fn without_any_config_the_defaults_hold_and_there_is_no_machine() {
    let trial = Trial::new();
    let config = trial.load().unwrap();
    assert!(config.machines.is_empty());
    assert_eq!(config.server.address().to_string(), "127.0.0.1:8000");
    assert_eq!(config.server.auth, Auth::Bearer);
    assert_eq!(config.server.allowed_hosts, ["localhost"]);
    assert_eq!(config.server.wait_without_progress, Duration::from_secs(50));
    assert_eq!(config.watch.finish_timeout, Duration::from_mins(3));
    assert_eq!(config.watch.stall_after, Some(Duration::from_mins(30)));
    assert_eq!(config.watch.unreachable_after, Some(Duration::from_hours(1)));
    assert_eq!(config.watch.keep_events, Duration::from_hours(720));
    assert_eq!(config.state_dir, trial.path("home/.local/state/t3code-mcp"));
    assert_eq!(config.notes, []);
}

#[test]
fn a_machine_is_read_with_everything_it_can_have() {
    let trial = with_machine(
        "model = \"claudeAgent/claude-opus-5\"\noptions = { effort = \"high\", thinking = true }\nruntime_mode = \"auto\"\n\
         max_runtime_mode = \"auto\"\nscratch = true\nca_file = \"ca.pem\"\nframe_limit_mib = 8\n",
    )
    .file("cwd/ca.pem", "");
    let config = trial.load().unwrap();
    let [machine] = config.machines.as_slice() else {
        panic!("one machine")
    };
    assert_eq!(machine.url.as_str(), "http://100.64.0.7:3773/");
    assert_eq!(
        machine.token.token().unwrap().expose_secret(),
        "t3-mac-token-0123456789"
    );
    assert_eq!(machine.options["effort"], OptionValue::Text("high".to_owned()));
    assert_eq!(machine.options["thinking"], OptionValue::Bool(true));
    assert_eq!(machine.max_runtime_mode, Some(RuntimeMode::Auto));
    assert!(machine.scratch);
    assert_eq!(machine.ca_file, Some(trial.path("cwd/ca.pem")));
    assert_eq!(machine.frame_limit, 8 * 1024 * 1024);
    assert_eq!(config.notes, [Note::Read(trial.path("cwd/t3code.toml"))]);
}

#[test]
fn flags_win_over_environment_over_file_over_default() {
    let port = |trial: Trial| trial.load().unwrap().server.port;
    let file = || Trial::new().config("[server]\nport = 1\n");
    assert_eq!(port(Trial::new()), 8000);
    assert_eq!(port(file()), 1);
    assert_eq!(port(file().variable("T3CODE_MCP_PORT", "2")), 2);
    assert_eq!(port(file().variable("T3CODE_MCP_PORT", "2").flag("port", "3")), 3);
    assert_eq!(
        port(file().variable("T3CODE_MCP_PORT", "")),
        1,
        "an empty variable is not set"
    );
}

#[test]
fn each_setting_with_a_variable_and_a_flag_is_set_by_both() {
    // A value that differs from every default, so that a variable or flag that does nothing shows.
    let values = [
        ("state_dir", "/elsewhere"),
        ("machines.*.model", "codex/other"),
        ("server.host", "127.0.0.9"),
        ("server.port", "9"),
        ("server.allowed_hosts", "a.example, b.example:1"),
        ("server.allowed_origins", "https://a.example"),
        ("server.auth", "none"),
        ("server.insecure", "true"),
        ("server.default_bearer", "true"),
        ("server.wait_without_progress", "9s"),
        ("server.max_runtime_mode", "auto"),
        ("watch.finish_timeout", "9m"),
        ("watch.stall_after", "off"),
        ("watch.unreachable_after", "9h"),
        ("watch.keep_events", "48h"),
        ("hook.url", "http://127.0.0.9/hook"),
        ("hook.token_env", "T3_MAC_TOKEN"),
        ("hook.secret_env", "NEW"),
        ("hook.previous_secret_env", "NEW"),
        ("hook.ca_file", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")),
        ("hook.credentials", "true"),
        ("log.filter", "debug"),
        ("log.format", "json"),
    ];
    let hook = || with_machine("[hook]\nurl = \"https://gateway.example\"\n").variable("NEW", SECRET);
    let plain = format!("{:?}", hook().load().unwrap());
    for setting in settings::SETTINGS {
        let (Some(key), Some(variable), Some(flag)) = (setting.key, setting.variable, setting.flag) else {
            continue;
        };
        let (_, value) = values
            .iter()
            .find(|(name, _)| *name == key)
            .unwrap_or_else(|| panic!("{key} is not tried"));
        let trial = || match key {
            "hook.previous_secret_env" => hook().variable("T3CODE_MCP_HOOK_SECRET_ENV", "NEW"),
            _ => hook(),
        };
        let by_variable = format!("{:?}", trial().variable(variable, value).load().unwrap());
        let by_flag = format!("{:?}", trial().flag(flag, value).load().unwrap());
        let strip = |text: &str| text.split("state_dir").next().map(str::to_owned);
        assert_eq!(strip(&by_variable), strip(&by_flag), "{key}");
        // These two only widen what another setting allows: their value shows nowhere by itself.
        if !matches!(key, "server.insecure" | "server.default_bearer") {
            assert_ne!(by_variable, plain, "{key}");
        }
    }
}

#[test]
fn the_config_is_looked_for_in_order() {
    let port = |trial: &Trial| trial.load().unwrap().server.port;
    let trial = Trial::new().file("home/.config/t3code-mcp/t3code.toml", "[server]\nport = 4\n");
    assert_eq!(port(&trial), 4);
    let trial = trial.config("[server]\nport = 3\n");
    assert_eq!(port(&trial), 3);
    let trial = trial
        .file("cwd/by-variable.toml", "[server]\nport = 2\n")
        .variable("T3CODE_MCP_CONFIG", "by-variable.toml");
    assert_eq!(port(&trial), 2);
    let trial = trial
        .file("cwd/by-flag.toml", "[server]\nport = 1\n")
        .named("by-flag.toml");
    assert_eq!(port(&trial), 1);
}

#[test]
fn over_stdio_nothing_of_the_working_directory_is_read_unless_a_flag_names_it() {
    let trial = with_machine("").file("cwd/.env", "T3CODE_MCP_PORT=9\n").stdio();
    let config = trial.load().unwrap();
    assert_eq!((config.machines.len(), config.server.port), (0, 8000));
    assert_eq!(config.notes, []);
    assert_eq!(trial.named("t3code.toml").load().unwrap().machines.len(), 1);
    let mut named = Trial::new().file("cwd/.env", "T3CODE_MCP_PORT=9\n").stdio();
    named.request.env_file = Some(".env".into());
    assert_eq!(named.load().unwrap().server.port, 9);
    // Nor by a variable, which the repository's own tooling may have set, or by a relative user directory.
    let relative = with_machine("").stdio().variable("T3CODE_MCP_CONFIG", "t3code.toml");
    assert!(relative.complaint().contains("--config"));
    let relative = with_machine("").stdio().variable("T3CODE_MCP_STATE", "state");
    assert!(relative.complaint().contains("--state-dir"));
    let relative = Trial::new()
        .file("cwd/x/t3code-mcp/t3code.toml", "[server]\nport = 9\n")
        .stdio()
        .variable("XDG_CONFIG_HOME", "x");
    assert_eq!(relative.load().unwrap().server.port, 8000);
}

#[test]
fn the_env_file_of_the_working_directory_is_read_if_nobody_else_can_write_it() {
    let trial = Trial::new().file_with_mode("cwd/.env", "T3CODE_MCP_PORT=9\n", 0o644);
    let config = trial.load().unwrap();
    assert_eq!(config.server.port, 9);
    assert_eq!(config.notes, [Note::Read(trial.path("cwd/.env"))]);
    for mode in [0o664, 0o646, 0o622] {
        let trial = Trial::new().file_with_mode("cwd/.env", "T3CODE_MCP_PORT=9\n", mode);
        let config = trial.load().unwrap();
        assert_eq!(config.server.port, 8000, "{mode:o}");
        assert!(matches!(config.notes.as_slice(), [Note::Skipped { why, .. }] if why.contains("chmod go-w")));
    }
}

#[test]
fn an_env_file_of_another_user_is_left_alone() {
    let trial = Trial::new().file("cwd/.env", "T3CODE_MCP_PORT=9\n");
    let path = trial.path("cwd/.env");
    // Only root can give a file away; others meet a foreign file through a link to one of root's.
    if std::os::unix::fs::chown(&path, Some(12345), None).is_err() {
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
    }
    let config = trial.load().unwrap();
    assert_eq!(config.server.port, 8000);
    assert!(matches!(config.notes.as_slice(), [Note::Skipped { why, .. }] if why.contains("another user")));
}

#[test]
fn only_what_may_read_the_env_file_reads_it() {
    let mut trial = Trial::new().file("cwd/.env", "T3CODE_MCP_PORT=9\n");
    trial.request.working_directory = WorkingDirectory::Config;
    assert_eq!(trial.load().unwrap().server.port, 8000);
}

#[test]
fn a_machine_whose_token_is_not_set_is_kept_and_named() {
    let config = Trial::new().config(MACHINE).load().unwrap();
    assert!(config.machines[0].token.token().is_none());
    assert!(
        matches!(config.notes.as_slice(), [Note::Read(_), Note::NoToken { variable, .. }] if variable == "T3_MAC_TOKEN")
    );
}

#[test]
fn the_lower_ceiling_holds() {
    let ceiling = |trial: Trial| trial.load().unwrap().machines[0].max_runtime_mode.unwrap();
    let own = "max_runtime_mode = \"auto\"\n";
    assert_eq!(ceiling(with_machine("")), RuntimeMode::FullAccess);
    assert_eq!(ceiling(with_machine(own)), RuntimeMode::Auto);
    assert_eq!(
        ceiling(with_machine(own).flag("max-mode", "full-access")),
        RuntimeMode::Auto
    );
    assert_eq!(
        ceiling(with_machine(own).flag("max-mode", "approval-required")),
        RuntimeMode::ApprovalRequired
    );
}

#[test]
fn clients_are_read_with_their_limits() {
    let trial = with_machine(
        "[[server.client]]\nname = \"dispatcher\"\ntoken_env = \"DISPATCHER_TOKEN\"\nmachines = [\"mac\"]\nprojects = [\"web*\"]\n\
         max_runtime_mode = \"auto\"\nread_only = true\n[[server.client]]\nname = \"reader\"\ntoken_env = \"READER_TOKEN\"\n",
    )
    .variable("DISPATCHER_TOKEN", "dispatcher-0123456789")
    .variable("READER_TOKEN", "reader-0123456789");
    let config = trial.load().unwrap();
    let [dispatcher, reader] = config.server.clients.as_slice() else {
        panic!("two clients")
    };
    assert_eq!(dispatcher.machines.as_deref(), Some(["mac".to_owned()].as_slice()));
    assert!(dispatcher.read_only && !reader.read_only);
    assert_eq!(reader.token.expose_secret(), "reader-0123456789");
    assert_eq!(reader.projects, None);
}

const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

#[test]
fn a_hook_is_read_with_everything_it_can_have() {
    let config = Trial::new()
        .config(
            "[hook]\nurl = \"https://gateway.example/hooks?key=sesame\"\ntoken_env = \"T3CODE_MCP_GATEWAY_TOKEN\"\nsecret_env = \"NEW\"\n\
             previous_secret_env = \"OLD\"\nca_file = \"ca.pem\"\n[watch]\nstall_after = \"off\"\nunreachable_after = \"2h\"\n",
        )
        .file("cwd/ca.pem", "")
        .variable("T3CODE_MCP_GATEWAY_TOKEN", "gateway-0123456789")
        .variable("NEW", SECRET)
        .variable("OLD", "whsec_b2xkIG9sZCBvbGQgb2xkIG9sZCBvbGQgb2xk");
    let config = config.load().unwrap();
    let hook = config.hook.as_ref().unwrap();
    assert_eq!(hook.url.as_str(), "https://gateway.example/hooks?key=sesame");
    assert_eq!(hook.token.as_ref().unwrap().expose_secret(), "gateway-0123456789");
    let secrets: Vec<_> = hook.secrets.iter().map(secrecy::ExposeSecret::expose_secret).collect();
    assert_eq!(secrets, [SECRET, "whsec_b2xkIG9sZCBvbGQgb2xkIG9sZCBvbGQgb2xk"]);
    assert!(hook.ca_file.as_ref().unwrap().ends_with("ca.pem"));
    assert_eq!(
        (config.watch.stall_after, config.watch.unreachable_after),
        (None, Some(Duration::from_hours(2)))
    );
    assert!(
        config.notes.iter().all(|note| matches!(note, Note::Read(_))),
        "{:?}",
        config.notes
    );
    let shown = format!("{config:?}");
    assert!(
        !shown.contains("sesame") && !shown.contains("gateway-0") && !shown.contains("whsec"),
        "{shown}"
    );
}

#[test]
fn a_hook_needs_no_more_than_a_url_and_a_public_one_without_tls_is_warned_of() {
    let load = |url: &str| Trial::new().variable("T3CODE_MCP_HOOK_URL", url).load().unwrap();
    let near = load("http://127.0.0.1:9000/hook");
    assert!(
        near.hook
            .is_some_and(|hook| hook.token.is_none() && hook.secrets.is_empty())
    );
    assert_eq!(near.notes, []);
    let far = load("http://gateway.example/hook");
    assert!(
        matches!(far.notes.as_slice(), [Note::Warning(text)] if text.contains("Take https")),
        "{:?}",
        far.notes
    );
    assert!(Trial::new().load().unwrap().hook.is_none());
}

#[test]
fn a_variable_that_looks_like_ours_is_named() {
    let config = Trial::new().variable("T3CODE_MCP_PROT", "9").load().unwrap();
    assert_eq!(
        config.notes,
        [Note::Warning(
            "the environment variable T3CODE_MCP_PROT is none of ours and does nothing: is T3CODE_MCP_PORT meant?"
                .to_owned()
        )]
    );
    let token = with_machine("")
        .config(&MACHINE.replace("T3_MAC_TOKEN", "T3CODE_MCP_MAC"))
        .variable("T3CODE_MCP_MAC", "abcdefghijklmnopqrst");
    assert!(
        !token
            .load()
            .unwrap()
            .notes
            .iter()
            .any(|note| matches!(note, Note::Warning(_)))
    );
}

#[test]
fn no_secret_is_ever_shown() {
    let secret = "sesame-0123456789";
    let places = [
        format!("[machines.mac]\ntoken = \"{secret}\"\n"),
        format!("[machines.mac]\nurl = \"http://me:{secret}@host\"\ntoken_env = \"T\"\nprojects = [\"*\"]\n"),
        format!("[machines.mac]\nurl = \"http://host\"\ntoken_env = \"{secret}\"\nprojects = [\"*\"]\n"),
        format!("[server]\nbearer = \"{secret}\"\n"),
        format!("[server]\nport = 1 \"{secret}\"\n"),
        format!("token = \"{secret}\nx"),
    ];
    for text in places {
        let said = Trial::new().config(&text).complaint();
        assert!(!said.contains("sesame"), "{said}");
    }
    let config = with_machine("").variable("T3CODE_MCP_TOKEN", secret).load().unwrap();
    let shown = format!("{config:?}");
    assert!(!shown.contains("sesame") && !shown.contains("t3-mac-token"), "{shown}");
    let bad = Trial::new().variable("T3CODE_MCP_TOKEN", "Bearer sesame").complaint();
    assert!(!bad.contains("sesame"), "{bad}");
}

/// A credential as pairing keeps it.
fn kept(projects: &str) -> String {
    format!(
        "{{\"url\": \"http://127.0.0.1:9\", \"token\": \"sesame\", \"environment\": \"env\", \"paired_at\": \"2026-12-01T00:00:00Z\", \
         \"from_a_newer_version\": 1{projects}}}"
    )
}

const CREDENTIALS: &str = "home/.local/state/t3code-mcp/credentials";

fn closed(trial: Trial) -> Trial {
    for folder in ["home/.local/state/t3code-mcp", CREDENTIALS] {
        let path = trial.root.path().join(folder);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    trial
}

#[test]
fn a_machine_that_pairing_made_is_there_under_what_is_set_for_all() {
    let trial = Trial::new()
        .file(&format!("{CREDENTIALS}/box.json"), &kept(", \"projects\": [\"web-*\"]"))
        .file(&format!("{CREDENTIALS}/left_over.json"), &kept(""))
        .flag("model", "codex/other")
        .flag("max-mode", "auto");
    let config = closed(trial).load().unwrap();
    let names: Vec<&str> = config.machines.iter().map(|machine| machine.name.as_str()).collect();
    assert_eq!(names, ["box"], "what the config had, and has no more, is no machine");
    let machine = &config.machines[0];
    assert_eq!(machine.token.token().unwrap().expose_secret(), "sesame");
    assert_eq!((machine.in_state, machine.agent_pairing), (true, false));
    assert_eq!(machine.projects, ["web-*"]);
    assert_eq!(machine.model.as_deref(), Some("codex/other"));
    assert_eq!(machine.max_runtime_mode, Some(RuntimeMode::Auto));
    assert!(!format!("{config:?}").contains("sesame"));
}

#[test]
fn a_machine_of_the_config_takes_only_the_token_from_pairing() {
    let text = "[machines.box]\nurl = \"http://box.example\"\npairing = true\nprojects = [\"mine\"]\n";
    let config = Trial::new().config(text).load().unwrap();
    assert!(config.machines[0].token.token().is_none());
    let trial = Trial::new()
        .config(text)
        .file(&format!("{CREDENTIALS}/box.json"), &kept(", \"projects\": [\"*\"]"));
    let config = closed(trial).load().unwrap();
    let machine = &config.machines[0];
    assert_eq!(
        (machine.in_state, machine.projects.as_slice()),
        (false, ["mine".to_owned()].as_slice())
    );
    assert_eq!(machine.url.as_str(), "http://box.example/");
    assert!(machine.token.token().is_some());
    let trial = Trial::new()
        .config(text)
        .file_with_mode(&format!("{CREDENTIALS}/box.json"), &kept(""), 0o644);
    let config = closed(trial).load().unwrap();
    assert!(config.machines[0].token.token().is_none());
    let warned = |note: &Note| matches!(note, Note::Credential { machine: Some(machine), problem } if machine == "box" && problem.contains("box.json: others can read"));
    assert!(config.notes.iter().any(warned), "{:?}", config.notes);
}

#[test]
#[allow(clippy::too_many_lines, reason = "a list of what can be wrong")]
fn each_error_says_where_what_and_how_to_mend_it() {
    let file = |text: &str| Trial::new().config(text);
    let client = |rest: &str| with_machine(&format!("[[server.client]]\n{rest}")).variable("C", "client-0123456789");
    let cases: Vec<(&str, Trial)> = vec![
        ("no such file", Trial::new().named("missing.toml")),
        ("not TOML", file("[server\nport = 1\n")),
        ("a key twice", file("[server]\nport = 1\nport = 2\n")),
        ("unknown table", file("[machine.mac]\n")),
        (
            "unknown keys, all at once",
            file("[server]\nhots = \"127.0.0.1\"\nprot = 1\nzzz = 1\n"),
        ),
        (
            "unknown key of a machine",
            file("[machines.mac]\nmax_runtim_mode = \"auto\"\n"),
        ),
        ("a token in the file", file("[machines.mac]\ntoken = \"x\"\n")),
        (
            "two ways to a token",
            file("[machines.mac]\nurl = \"http://h\"\ntoken_env = \"T\"\npairing = true\nprojects = [\"*\"]\n"),
        ),
        (
            "agents that pair what is not paired",
            file("[machines.mac]\nurl = \"http://h\"\ntoken_env = \"T\"\nagent_pairing = true\nprojects = [\"*\"]\n"),
        ),
        ("machines is no table", file("machines = 1\n")),
        ("client is no list", file("[server.client]\nname = \"x\"\n")),
        ("wrong type", file("[server]\nport = \"many\"\n")),
        ("port too large", file("[server]\nport = 70000\n")),
        (
            "wrong number in a variable",
            Trial::new().variable("T3CODE_MCP_PORT", "many"),
        ),
        ("port too large by flag", Trial::new().flag("port", "70000")),
        ("wrong switch", Trial::new().variable("T3CODE_MCP_INSECURE", "maybe")),
        ("an empty machine", file("[machines.mac]\n")),
        (
            "everything wrong with a machine",
            file(
                "[machines.\"my mac\"]\nurl = \"ftp://x\"\ntoken_env = \"not a name\"\nprojects = []\nmodel = \"a b\"\nruntime_mode = \"yolo\"\n\
                 frame_limit_mib = 0\n",
            ),
        ),
        (
            "url with a path",
            with_machine("").config(&MACHINE.replace(":3773", ":3773/t3")),
        ),
        (
            "url with a user",
            with_machine("").config(&MACHINE.replace("http://", "http://me:pw@")),
        ),
        ("missing CA file", with_machine("ca_file = \"ca.pem\"\n")),
        (
            "host that is none",
            Trial::new().variable("T3CODE_MCP_HOST", "example.org"),
        ),
        (
            "hosts and origins",
            file("[server]\nallowed_hosts = [\"http://x\"]\nallowed_origins = [\"x\"]\n"),
        ),
        ("unknown auth", file("[server]\nauth = \"basic\"\n")),
        ("open to all", file("[server]\nauth = \"none\"\nhost = \"0.0.0.0\"\n")),
        (
            "open, with clients",
            client("name = \"x\"\ntoken_env = \"C\"\n").flag("auth", "none"),
        ),
        ("nobody can call", file("[server]\ndefault_bearer = false\n")),
        (
            "durations",
            file("[server]\nwait_without_progress = \"2s\"\n[watch]\nfinish_timeout = \"soon\"\n"),
        ),
        (
            "times of the watch",
            file("[watch]\nstall_after = \"never\"\nunreachable_after = \"1000h\"\n"),
        ),
        ("a hook without a URL", file("[hook]\ntoken_env = \"T\"\n")),
        ("a hook elsewhere", file("[hook]\nurl = \"ftp://x\"\n")),
        (
            "a hook with a user",
            Trial::new().variable("T3CODE_MCP_HOOK_URL", "https://me:pw@x/hooks"),
        ),
        ("a hook with a fragment", file("[hook]\nurl = \"https://x/#y\"\n")),
        ("a hook's secret in the file", file("[hook]\nsecret = \"x\"\n")),
        (
            "a hook with everything else wrong",
            file(
                "[hook]\nurl = \"https://x\"\ntoken_env = \"NONE\"\nprevious_secret_env = \"OLD\"\nca_file = \"ca.pem\"\n",
            )
            .variable("OLD", "old-secret-0123456789"),
        ),
        ("log", file("[log]\nfilter = \"a=b=c\"\nformat = \"xml\"\n")),
        (
            "unknown machine of a client",
            client("name = \"x\"\ntoken_env = \"C\"\nmachines = [\"mca\"]\n"),
        ),
        ("client without a token", client("name = \"x\"\ntoken_env = \"D\"\n")),
        (
            "client with the default's name",
            client("name = \"default\"\ntoken_env = \"C\"\n"),
        ),
        (
            "two clients alike",
            client("name = \"x\"\ntoken_env = \"C\"\n[[server.client]]\nname = \"x\"\ntoken_env = \"C\"\n"),
        ),
        ("token with blanks", Trial::new().variable("T3CODE_MCP_TOKEN", "a b")),
        (
            "origin with other than ASCII",
            Trial::new().variable("T3CODE_MCP_ORIGIN", "ä"),
        ),
        (
            "a line of .env that is none",
            Trial::new().file("cwd/.env", "A=1\nnonsense\n"),
        ),
    ];
    let mut all = String::new();
    for (name, trial) in cases {
        writeln!(all, "# {name}\n{}\n", trial.complaint()).unwrap();
    }
    insta::with_settings!({snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/snapshots"), prepend_module_to_snapshot => true}, {
        insta::assert_snapshot!("errors", all);
    });
}

#[test]
fn the_example_in_the_repository_is_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut trial = Trial::new().named(&root.join("t3code.example.toml").display().to_string());
    trial.request.env_file = Some(root.join(".env.example"));
    let config = trial.load().unwrap();
    assert!(!config.machines.is_empty() && !config.server.clients.is_empty());
    assert!(
        config.notes.iter().all(|note| matches!(note, Note::Read(_))),
        "{:?}",
        config.notes
    );
}

#[test]
fn what_pairing_left_is_taken_over_later_and_what_cannot_be_read_stays_as_it_was() {
    let trial = Trial::new()
        .config("[machines.mac]\nurl = \"http://box.example\"\npairing = true\nprojects = [\"mine\"]\n")
        .file(&format!("{CREDENTIALS}/mac.json"), &kept(""))
        .file(&format!("{CREDENTIALS}/box.json"), &kept(", \"projects\": [\"*\"]"))
        .file_with_mode(
            &format!("{CREDENTIALS}/old.json"),
            &kept(", \"projects\": [\"*\"]"),
            0o644,
        );
    let config = closed(trial).load().unwrap();
    assert!(config.unusable.covers("old") && !config.unusable.covers("box"));
    let of = |name: &str| {
        let machine = config.machines.iter().find(|machine| machine.name == name).unwrap();
        let TokenSource::Pairing(Some(kept)) = &machine.token else {
            panic!("{name} has no credential")
        };
        Kept::clone(kept)
    };
    let broken = || state::StateError::new(Path::new("x"), "is broken");
    let seen = |config: &Config| {
        let machines = config.machines.iter();
        machines
            .map(|machine| (machine.name.clone(), machine.token.token().is_some()))
            .collect::<Vec<_>>()
    };
    let both = [("mac".to_owned(), true), ("box".to_owned(), true)];
    let later = config.with_kept(&Err(broken()));
    assert_eq!(seen(&later), both);
    assert!(later.unusable.covers("anything"));

    let found = BTreeMap::from([("mac".to_owned(), Err(broken())), ("box".to_owned(), Err(broken()))]);
    let later = config.with_kept(&Ok(found));
    assert_eq!(seen(&later), both);
    assert!(later.unusable.covers("box") && !later.unusable.covers("old"));

    let new = Kept {
        machine: "new".to_owned(),
        ..of("box")
    };
    let found = BTreeMap::from([("mac".to_owned(), Ok(of("mac"))), ("new".to_owned(), Ok(new))]);
    let later = config.with_kept(&Ok(found));
    assert_eq!(seen(&later), [("mac".to_owned(), true), ("new".to_owned(), true)]);
    assert_eq!(
        seen(&config.with_kept(&Ok(BTreeMap::new()))),
        [("mac".to_owned(), false)]
    );
}
