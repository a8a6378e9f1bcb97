//! The table of every setting: its key in the file, its environment variable, its flag, its default and what it is for.
//!
//! Whatever names a setting reads it here: the loader (which keys exist, how an environment variable becomes a value, what holds where
//! nothing is said), the help of the command line, the README's table and the tests. A setting that is not in this table does not exist.

use std::fmt::Write as _;

/// How the text of an environment variable or a flag becomes a value of the file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// As it stands.
    Text,
    /// A whole number.
    Number,
    /// `true` or `false`.
    Switch,
    /// Several, with commas between them.
    List,
    /// Keys of the operator's own; only in the file.
    Map,
}

impl Kind {
    /// How a value of it is written in the file.
    pub(super) fn written(self) -> &'static str {
        match self {
            Self::Text => "text in quotes",
            Self::Number => "a whole number, without quotes",
            Self::Switch => "true or false, without quotes",
            Self::List => "a list such as [\"a\", \"b\"]",
            Self::Map => "a table such as { effort = \"high\", thinking = true }",
        }
    }
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its place in the file: `*` stands for a machine's or an option's name, `[]` for each table of a list. None: it stands in no file.
    pub key: Option<&'static str>,
    /// Its environment variable.
    pub variable: Option<&'static str>,
    /// Its flag, without the dashes.
    pub flag: Option<&'static str>,
    /// Its short flag.
    pub short: Option<char>,
    /// How text becomes its value.
    pub kind: Kind,
    /// What holds where nothing is said, as the file would say it.
    pub default: Option<&'static str>,
    /// What it is for, in a sentence or two.
    pub doc: &'static str,
}

impl Setting {
    const fn key(key: &'static str, kind: Kind, doc: &'static str) -> Self {
        Self {
            key: Some(key),
            variable: None,
            flag: None,
            short: None,
            kind,
            default: None,
            doc,
        }
    }

    const fn outside_the_file(doc: &'static str) -> Self {
        Self {
            key: None,
            variable: None,
            flag: None,
            short: None,
            kind: Kind::Text,
            default: None,
            doc,
        }
    }

    const fn variable(self, variable: &'static str) -> Self {
        Self {
            variable: Some(variable),
            ..self
        }
    }

    const fn flag(self, flag: &'static str) -> Self {
        Self {
            flag: Some(flag),
            ..self
        }
    }

    const fn short(self, short: char) -> Self {
        Self {
            short: Some(short),
            ..self
        }
    }

    const fn default(self, default: &'static str) -> Self {
        Self {
            default: Some(default),
            ..self
        }
    }
}

/// The variable that names the config file.
pub const CONFIG_VARIABLE: &str = "T3CODE_MCP_CONFIG";
/// The variable that holds the default bearer.
pub const BEARER_VARIABLE: &str = "T3CODE_MCP_TOKEN";
/// The variable that holds the origin of what is dispatched over stdio.
pub const ORIGIN_VARIABLE: &str = "T3CODE_MCP_ORIGIN";
/// The variable that holds a pairing link.
pub const PAIRING_VARIABLE: &str = "T3_PAIRING_URL";
/// The name of the setting that is a machine's default model.
pub(super) const MODEL: &str = "machines.*.model";
/// The name of the state directory's setting.
pub const STATE_DIR: &str = "state_dir";

/// Every setting, in the order in which they are explained.
pub const SETTINGS: &[Setting] = &[
    Setting::outside_the_file(
        "The config file. Without it: `./t3code.toml` (not with `--stdio`), else `t3code-mcp/t3code.toml` in the user's config directory.",
    )
    .variable(CONFIG_VARIABLE)
    .flag("config"),
    Setting::outside_the_file(
        "A file of `NAME=value` lines that stand in for environment variables which are not set. Without it `serve` and `doctor` read \
         `./.env`, if it belongs to the user and nobody else can write it (not with `--stdio`).",
    )
    .flag("env-file"),
    Setting::outside_the_file(
        "The bearer token of the endpoint. Without it one is generated at the first start, kept in the state directory and printed by `token`.",
    )
    .variable(BEARER_VARIABLE),
    Setting::outside_the_file(
        "With `serve --stdio` and for commands: the origin of what is dispatched, as the header `X-Conversation-Origin` is over HTTP. Visible ASCII, at most \
         1,024 bytes.",
    )
    .variable(ORIGIN_VARIABLE),
    Setting::outside_the_file(
        "A pairing link that `serve` uses at the start, as `serve '<link>'` does. One that this gateway has used before is left alone.",
    )
    .variable(PAIRING_VARIABLE),
    Setting::key(
        STATE_DIR,
        Kind::Text,
        "The state directory, which only its owner may read; or a file: then its directory, with the ledger beside the file as `<name>.db`. Without it: `t3code-mcp` in the user's state directory.",
    )
    .variable("T3CODE_MCP_STATE")
    .flag("state-dir"),
    Setting::key("machines.*.url", Kind::Text, "Required. Where the T3 server listens: `http` or `https`, host and port."),
    Setting::key(
        "machines.*.token_env",
        Kind::Text,
        "This or `pairing` is required. The environment variable that holds the machine's token. While it is not set the machine says \
         `needs_pairing`.",
    ),
    Setting::key(
        "machines.*.pairing",
        Kind::Switch,
        "Instead of `token_env`: the credential comes from `t3code-mcp pair <name> '<link>'` and is kept in the state directory.",
    )
    .default("false"),
    Setting::key(
        "machines.*.agent_pairing",
        Kind::Switch,
        "With `pairing`: agents may renew the credential by the tool `t3_pair`. The code goes to `url` and nowhere else.",
    )
    .default("false"),
    Setting::key(
        "machines.*.projects",
        Kind::List,
        "Required. Patterns against a project's title and workspace root (`*` crosses `/`, case-sensitive). A project that matches none \
         does not exist for any tool.",
    ),
    Setting::key(
        MODEL,
        Kind::Text,
        "The model of a dispatch that names none: `instance/model`. Without it: the project's own. The variable and the flag set it for every machine.",
    )
    .variable("T3CODE_MCP_MODEL")
    .flag("model"),
    Setting::key(
        "machines.*.options",
        Kind::Map,
        "Model options of a dispatch that names none, such as `{ effort = \"high\" }`. Those that a model lacks are dropped with a note.",
    ),
    Setting::key(
        "machines.*.runtime_mode",
        Kind::Text,
        "The mode of a dispatch that names none: `approval-required`, `auto-accept-edits`, `auto` or `full-access`. Without it: `full-access`, \
         or the ceiling where that is lower.",
    ),
    Setting::key(
        "machines.*.max_runtime_mode",
        Kind::Text,
        "The machine's ceiling: no thread on it may be started or continued in a mode above.",
    ),
    Setting::key(
        "machines.*.scratch",
        Kind::Switch,
        "T3's scratch project exists too, whatever `projects` says, and takes dispatches that name no project. T3 makes it when the gateway connects.",
    )
    .default("false"),
    Setting::key(
        "machines.*.ca_file",
        Kind::Text,
        "A PEM file of further certificate authorities; a relative path starts at the config file.",
    ),
    Setting::key("machines.*.frame_limit_mib", Kind::Number, "The largest WebSocket frame that is taken from the machine, in MiB.")
        .default("64"),
    Setting::key("server.host", Kind::Text, "The IP address to listen on, or `localhost`.")
        .variable("T3CODE_MCP_HOST")
        .flag("host")
        .default("\"127.0.0.1\""),
    Setting::key("server.port", Kind::Number, "The port to listen on; 0 lets the system choose one.")
        .variable("T3CODE_MCP_PORT")
        .flag("port")
        .short('p')
        .default("8000"),
    Setting::key(
        "server.allowed_hosts",
        Kind::List,
        "Values of the `Host` header that pass besides the bound address: `name` (on any port) or `name:port`.",
    )
    .variable("T3CODE_MCP_ALLOWED_HOSTS")
    .flag("allowed-hosts")
    .default("[\"localhost\"]"),
    Setting::key(
        "server.allowed_origins",
        Kind::List,
        "Values of the `Origin` header that pass, such as `https://app.example` or `http://localhost:*`. A request without the header passes.",
    )
    .variable("T3CODE_MCP_ALLOWED_ORIGINS")
    .flag("allowed-origins")
    .default("[]"),
    Setting::key(
        "server.auth",
        Kind::Text,
        "`bearer`, or `none`: then whoever reaches the port may do everything.",
    )
    .variable("T3CODE_MCP_AUTH")
    .flag("auth")
    .default("\"bearer\""),
    Setting::key(
        "server.insecure",
        Kind::Switch,
        "Says that `auth = \"none\"` is meant although others can reach the address.",
    )
    .variable("T3CODE_MCP_INSECURE")
    .flag("insecure")
    .default("false"),
    Setting::key(
        "server.default_bearer",
        Kind::Switch,
        "Whether the default bearer, which has no limits, lets in. With named clients it can be switched off.",
    )
    .variable("T3CODE_MCP_DEFAULT_BEARER")
    .flag("default-bearer")
    .default("true"),
    Setting::key(
        "server.wait_without_progress",
        Kind::Text,
        "How long `t3_wait` waits when the caller names no timeout and gave no progress token: 5 s to 1 h.",
    )
    .variable("T3CODE_MCP_WAIT_WITHOUT_PROGRESS")
    .flag("wait-without-progress")
    .default("\"50s\""),
    Setting::key(
        "server.max_runtime_mode",
        Kind::Text,
        "The ceiling over all machines and clients; a lower one of theirs still holds.",
    )
    .variable("T3CODE_MCP_MAX_MODE")
    .flag("max-mode")
    .default("\"full-access\""),
    Setting::key(
        "server.client[].name",
        Kind::Text,
        "Required in each `[[server.client]]`. The client's name; request ids are kept apart by it.",
    ),
    Setting::key("server.client[].token_env", Kind::Text, "Required. The environment variable that holds the client's bearer token."),
    Setting::key("server.client[].machines", Kind::List, "The machines that exist for the client. Without it: all."),
    Setting::key(
        "server.client[].projects",
        Kind::List,
        "Patterns that a project must match, besides the machine's own, to exist for the client. Without it: no further ones.",
    ),
    Setting::key("server.client[].max_runtime_mode", Kind::Text, "The client's ceiling."),
    Setting::key("server.client[].read_only", Kind::Switch, "The client may look and wait, and change nothing.").default("false"),
    Setting::key(
        "watch.finish_timeout",
        Kind::Text,
        "A run that stays in `finishing` longer counts as `completed`, marked `unconfirmed`: 1 s to 24 h.",
    )
    .variable("T3CODE_MCP_FINISH_TIMEOUT")
    .flag("finish-timeout")
    .default("\"3m\""),
    Setting::key(
        "watch.stall_after",
        Kind::Text,
        "A watched run without any change and with nothing pending for so long is told once as `stalled`: 1 s to 720 h, or `off`.",
    )
    .variable("T3CODE_MCP_STALL_AFTER")
    .flag("stall-after")
    .default("\"30m\""),
    Setting::key(
        "watch.unreachable_after",
        Kind::Text,
        "A machine with watched open runs that is away for so long is told once as `unreachable`: 1 s to 720 h, or `off`.",
    )
    .variable("T3CODE_MCP_UNREACHABLE_AFTER")
    .flag("unreachable-after")
    .default("\"1h\""),
    Setting::key(
        "watch.keep_events",
        Kind::Text,
        "How long events are kept that were delivered, or never were to be: 1 h to 8760 h.",
    )
    .variable("T3CODE_MCP_KEEP_EVENTS")
    .flag("keep-events")
    .default("\"720h\""),
    Setting::key(
        "hook.url",
        Kind::Text,
        "Where events are sent with `POST`: `http` or `https`. Without it none are sent. Redirects are not followed, proxies not used.",
    )
    .variable("T3CODE_MCP_HOOK_URL")
    .flag("hook-url"),
    Setting::key(
        "hook.token_env",
        Kind::Text,
        "The environment variable that holds the bearer token for the receiver. Without it none is sent.",
    )
    .variable("T3CODE_MCP_HOOK_TOKEN_ENV")
    .flag("hook-token-env"),
    Setting::key(
        "hook.secret_env",
        Kind::Text,
        "The environment variable that holds the secret with which events are signed (Standard Webhooks): `whsec_` and the base64 of 24 \
         random bytes or more. Without it they are not signed.",
    )
    .variable("T3CODE_MCP_HOOK_SECRET_ENV")
    .flag("hook-secret-env"),
    Setting::key(
        "hook.previous_secret_env",
        Kind::Text,
        "While the secret is replaced: the environment variable of the old one. Events then carry a signature by each.",
    )
    .variable("T3CODE_MCP_HOOK_PREVIOUS_SECRET_ENV")
    .flag("hook-previous-secret-env"),
    Setting::key(
        "hook.ca_file",
        Kind::Text,
        "A PEM file of further certificate authorities for the receiver; a relative path starts at the config file.",
    )
    .variable("T3CODE_MCP_HOOK_CA_FILE")
    .flag("hook-ca-file"),
    Setting::key(
        "hook.credentials",
        Kind::Switch,
        "Whether it is told as the event `credential` when a machine's credential ends in 14, 7, 3 or 1 days, or has ended.",
    )
    .variable("T3CODE_MCP_HOOK_CREDENTIALS")
    .flag("hook-credentials")
    .default("false"),
    Setting::key("log.filter", Kind::Text, "What is logged to stderr: `error`, `warn`, `info`, `debug`, or a `tracing` filter.")
        .variable("T3CODE_MCP_LOG")
        .flag("log")
        .default("\"info\""),
    Setting::key("log.format", Kind::Text, "How a line is logged: `text` or `json`.")
        .variable("T3CODE_MCP_LOG_FORMAT")
        .flag("log-format")
        .default("\"text\""),
];

/// The setting at a key of the file.
pub fn at(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == Some(key))
}

/// The setting that a path in a config (`machines.mac.url`, `server.client[0].name`) is of.
pub(super) fn of_path(path: &str) -> Option<&'static Setting> {
    let fits = |setting: &&Setting| {
        let Some(key) = setting.key else { return false };
        // What stands behind a list's or map's own path belongs to its setting.
        let mut steps = path.split('.');
        key.split('.').all(|wanted| {
            let step = steps.next().unwrap_or_default();
            let bare = step.split('[').next().unwrap_or_default();
            wanted == "*" || wanted == bare || wanted.strip_suffix("[]") == Some(bare)
        })
    };
    SETTINGS.iter().find(fits)
}

/// The value of a setting's default.
pub(super) fn default_value(setting: &Setting) -> Option<toml::Value> {
    toml::from_str::<toml::Table>(&format!("x = {}", setting.default?))
        .ok()?
        .remove("x")
}

/// The settings that have a flag, each with the flag's name.
pub fn with_flags() -> impl Iterator<Item = (&'static str, &'static Setting)> {
    SETTINGS.iter().filter_map(|setting| Some((setting.flag?, setting)))
}

/// The table as the README shows it.
pub fn markdown() -> String {
    let mut table =
        String::from("| in the file | environment | flag | default | what it is for |\n|---|---|---|---|---|\n");
    for setting in SETTINGS {
        let key = setting.key.map(|key| key.replace('*', "<name>"));
        let flag = setting.flag.map(|flag| match setting.short {
            Some(short) => format!("-{short}, --{flag}"),
            None => format!("--{flag}"),
        });
        let cells = [
            key,
            setting.variable.map(str::to_owned),
            flag,
            setting.default.map(str::to_owned),
        ];
        for cell in cells {
            let _ = match cell {
                Some(text) => write!(table, "| `{text}` "),
                None => write!(table, "| "),
            };
        }
        let _ = writeln!(table, "| {} |", setting.doc);
    }
    table
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_settings_share_a_key_a_variable_or_a_flag() {
        let mut seen = BTreeSet::new();
        for setting in SETTINGS {
            let short = setting.short.map(String::from);
            for name in [setting.key, setting.variable, setting.flag, short.as_deref()]
                .into_iter()
                .flatten()
            {
                assert!(seen.insert(name.to_owned()), "{name} stands there twice");
            }
        }
    }

    #[test]
    fn a_setting_of_the_whole_gateway_can_be_set_in_every_way() {
        for setting in SETTINGS {
            let Some(key) = setting.key else { continue };
            if !key.contains(['*', '[']) {
                assert!(
                    setting.variable.is_some() && setting.flag.is_some(),
                    "{key} lacks a variable or a flag"
                );
            }
        }
    }

    #[test]
    fn each_default_is_toml() {
        for setting in SETTINGS {
            if let Some(default) = setting.default {
                assert!(
                    toml::from_str::<toml::Table>(&format!("x = {default}")).is_ok(),
                    "{default}"
                );
            }
        }
    }
}
