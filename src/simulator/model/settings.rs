//! What a simulated server is: its name, its provider instances, its git branches and its pace.

use std::time::Duration;

/// How long things take. [`Timing::recorded`] is what was seen on a real server with two cores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// From a dispatch to a running run, with the provider's process there.
    pub warm_start: Duration,
    /// The same with a provider that has to be started.
    pub cold_start: Duration,
    /// From running to the turn.
    pub turn: Duration,
    /// From the turn to the agent's first act, and between its acts.
    pub act: Duration,
    /// From the end of the turn to the captured checkpoint: how long a run is `waiting`.
    pub checkpoint: Duration,
    /// From an interrupt to its end.
    pub interrupt: Duration,
    /// The same while the agent waits for a person.
    pub interrupt_pending: Duration,
    /// How long a launched run is `preparing`.
    pub prepare: Duration,
    /// From a title to the word that no better one is being made any more.
    pub title: Duration,
}

impl Timing {
    /// As seen on a real server.
    pub const fn recorded() -> Self {
        Self {
            warm_start: Duration::from_millis(20),
            cold_start: Duration::from_millis(90),
            turn: Duration::from_millis(30),
            act: Duration::from_millis(10),
            checkpoint: Duration::from_millis(75),
            interrupt: Duration::from_millis(25),
            interrupt_pending: Duration::from_secs(2),
            prepare: Duration::from_millis(40),
            title: Duration::from_millis(180),
        }
    }

    /// Everything within a few milliseconds, for load.
    pub const fn fast() -> Self {
        let step = Duration::from_millis(1);
        Self {
            warm_start: step,
            cold_start: step,
            turn: step,
            act: step,
            checkpoint: step,
            interrupt: step,
            interrupt_pending: step,
            prepare: step,
            title: step,
        }
    }
}

/// A model of a provider instance.
#[derive(Clone, Debug)]
pub struct ProviderModel {
    /// What a model selection names.
    pub slug: String,
    /// What people call it.
    pub name: String,
    /// Options that can be set: id, label, choices with the default first.
    pub options: Vec<(String, String, Vec<String>)>,
}

/// A provider instance.
#[derive(Clone, Debug)]
pub struct Provider {
    /// What a model selection names.
    pub instance: String,
    /// The kind of provider.
    pub driver: String,
    /// What people call it.
    pub name: String,
    /// Runs on a disabled one never start.
    pub enabled: bool,
    /// Takes a message into the running turn; otherwise a steer begins another attempt.
    pub steers_inside: bool,
    /// A change of the runtime mode, an archive or a deletion stops its session.
    pub restarts_on_change: bool,
    /// What it can run.
    pub models: Vec<ProviderModel>,
    /// Fields of its description to show instead of its own.
    pub shown: serde_json::Value,
}

/// What a model is told about itself.
#[derive(Clone, Debug)]
pub struct ModelOptions {
    /// Tells one database from another.
    pub environment_id: String,
    /// The version of T3 that it says it is, if not that of a server like it.
    pub version: Option<String>,
    /// Its provider instances.
    pub providers: Vec<Provider>,
    /// Behaves as servers after the version gate: a restart holds the queue, commands that came later are understood.
    pub newer: bool,
    /// The shell's snapshot tells no archived threads: they come by the archive's own stream alone, as newer servers may do it.
    pub archive_apart: bool,
    /// After a restart, goes on in another run with each run that it cut off at work, as newer servers may do it.
    pub continues_after_restart: bool,
    /// The git branches that a worktree can start from.
    pub branches: Vec<String>,
    /// Folders that exist, besides those of projects. A project needs one.
    pub folders: Vec<String>,
    /// Those of them that are git repositories: in any other, checkpoints are missing.
    pub repositories: Vec<String>,
    /// T3's own folder.
    pub home: String,
    /// How long things take.
    pub timing: Timing,
}

impl ModelOptions {
    /// As recorded: `grok` and `codex` ready, `claudeAgent` disabled.
    pub fn recorded() -> Self {
        let model = |slug: &str, name: &str| ProviderModel {
            slug: slug.to_owned(),
            name: name.to_owned(),
            options: Vec::new(),
        };
        let choices = |id: &str, label: &str, values: &[&str]| {
            (
                id.to_owned(),
                label.to_owned(),
                values.iter().map(|value| (*value).to_owned()).collect(),
            )
        };
        Self {
            environment_id: "38195a9f-8aa0-4d08-a04a-11f84aabfdc0".to_owned(),
            version: None,
            providers: vec![
                Provider {
                    instance: "claudeAgent".to_owned(),
                    driver: "claudeAgent".to_owned(),
                    name: "Claude".to_owned(),
                    enabled: false,
                    steers_inside: true,
                    restarts_on_change: false,
                    models: vec![ProviderModel {
                        options: vec![
                            choices("effort", "Reasoning", &["high", "low", "medium", "xhigh", "max"]),
                            choices("contextWindow", "Context Window", &["1m", "200k"]),
                        ],
                        ..model("claude-opus-5", "Claude Opus 5")
                    }],
                    shown: serde_json::Value::Null,
                },
                Provider {
                    instance: "codex".to_owned(),
                    driver: "codex".to_owned(),
                    name: "Codex".to_owned(),
                    enabled: true,
                    steers_inside: true,
                    restarts_on_change: false,
                    models: vec![ProviderModel {
                        options: vec![choices(
                            "reasoningEffort",
                            "Reasoning",
                            &["medium", "low", "high", "xhigh"],
                        )],
                        ..model("gpt-5", "GPT-5")
                    }],
                    shown: serde_json::Value::Null,
                },
                Provider {
                    instance: "grok".to_owned(),
                    driver: "grok".to_owned(),
                    name: "Grok".to_owned(),
                    enabled: true,
                    steers_inside: false,
                    restarts_on_change: true,
                    models: vec![model("grok-build", "Fake Build"), model("fake-slow", "Fake Slow")],
                    shown: serde_json::Value::Null,
                },
            ],
            newer: false,
            archive_apart: false,
            continues_after_restart: false,
            branches: ["main", "HEAD", "origin/main"].map(str::to_owned).to_vec(),
            folders: vec!["/home/dev/t3-smoke".to_owned()],
            repositories: vec!["/home/dev/t3-smoke".to_owned()],
            home: "/home/dev/.t3/base".to_owned(),
            timing: Timing::recorded(),
        }
    }

    pub(crate) fn provider(&self, instance: &str) -> Option<&Provider> {
        self.providers.iter().find(|provider| provider.instance == instance)
    }

    /// A provider that can run something.
    pub(crate) fn is_ready(&self, instance: &str) -> bool {
        self.provider(instance).is_some_and(|provider| provider.enabled)
    }
}
