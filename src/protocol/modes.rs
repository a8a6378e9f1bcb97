//! What a caller or the operator may set for a thread: how much its agent may do without asking, whether it works or plans, and the
//! values of model options.
//!
//! Both protocol versions share the words, and `config` needs them for its ceilings, so they stand below `machine`, which hands them on.

use std::fmt;

/// What an agent may do without asking, least first. The order is the ceiling's order.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Ord, PartialOrd, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuntimeMode {
    /// Asks before every command and edit.
    ApprovalRequired,
    /// Edits without asking, asks before commands.
    AutoAcceptEdits,
    /// Decides itself when to ask.
    Auto,
    /// Never asks.
    FullAccess,
}

impl RuntimeMode {
    /// All modes, least first.
    pub const ALL: [Self; 4] = [
        Self::ApprovalRequired,
        Self::AutoAcceptEdits,
        Self::Auto,
        Self::FullAccess,
    ];

    /// T3's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ApprovalRequired => "approval-required",
            Self::AutoAcceptEdits => "auto-accept-edits",
            Self::Auto => "auto",
            Self::FullAccess => "full-access",
        }
    }

    /// The mode of T3's word; none for a word that a newer T3 may have added.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word)
    }
}

impl fmt::Display for RuntimeMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether the agent works or only plans.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InteractionMode {
    /// Works.
    Default,
    /// Only plans.
    Plan,
}

impl InteractionMode {
    /// T3's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Plan => "plan",
        }
    }

    /// The mode of T3's word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Default, Self::Plan]
            .into_iter()
            .find(|mode| mode.as_str() == word)
    }
}

/// The value of a model option.
#[derive(Clone, Debug, Eq, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum OptionValue {
    /// On or off.
    Bool(bool),
    /// One of the option's choices.
    Text(String),
}
