//! The closed sets of words that flags take: the gateway's own, offered by help and by completion.

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::gateway::{Interaction, Mode, QueueAfter, Until, WhenBusy, WorkspaceKind};

/// Reads one of the words; each has to be one of the type's own.
fn one_of<T: DeserializeOwned + Clone + Send + Sync + 'static>(
    words: &'static [&'static str],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(words).try_map(|word| serde_json::from_value::<T>(Value::String(word)))
}

pub(super) fn when_busy() -> impl TypedValueParser<Value = WhenBusy> {
    one_of(&["reject", "queue", "steer", "restart"])
}

pub(super) fn mode() -> impl TypedValueParser<Value = Mode> {
    one_of(&["approval-required", "auto-accept-edits", "auto", "full-access"])
}

pub(super) fn interaction() -> impl TypedValueParser<Value = Interaction> {
    one_of(&["default", "plan"])
}

pub(super) fn workspace() -> impl TypedValueParser<Value = WorkspaceKind> {
    one_of(&["project", "worktree", "existing_worktree"])
}

pub(super) fn until() -> impl TypedValueParser<Value = Until> {
    one_of(&["any", "all"])
}

pub(super) fn queue_after() -> impl TypedValueParser<Value = QueueAfter> {
    one_of(&["continue", "hold"])
}

/// `name=value`.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("it must be NAME=VALUE".to_owned()),
    }
}

/// How long something took, as people say it.
pub(super) fn spoken(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes<T>(parser: &impl TypedValueParser<Value = T>) -> usize {
        let (command, mut taken) = (clap::Command::new("t"), 0);
        for word in parser.possible_values().into_iter().flatten() {
            let read = parser.parse_ref(&command, None, word.get_name().as_ref());
            assert!(read.is_ok(), "{} is offered and not taken", word.get_name());
            taken += 1;
        }
        taken
    }

    #[test]
    fn every_word_that_is_offered_is_the_gateways() {
        let taken = [
            takes(&when_busy()),
            takes(&mode()),
            takes(&interaction()),
            takes(&workspace()),
            takes(&until()),
            takes(&queue_after()),
        ];
        assert_eq!(taken, [4, 4, 2, 3, 2, 2]);
    }

    #[test]
    fn a_time_is_said_in_two_units_at_most() {
        let said = [0, 59, 60, 3_599, 3_600, 90_061].map(|seconds| spoken(Duration::from_secs(seconds)));
        assert_eq!(
            said,
            ["0 s", "59 s", "1 min 0 s", "59 min 59 s", "1 h 0 min", "25 h 1 min"]
        );
    }

    #[test]
    fn a_pair_needs_a_name() {
        assert_eq!(pair("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(pair("=b").is_err() && pair("ab").is_err());
    }
}
