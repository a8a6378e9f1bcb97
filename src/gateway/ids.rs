//! The ids that a call uses at T3, derived from the caller's intent: the same client, machine and request id always give the same ones,
//! so that a repeated call is the same call for T3 too.

use uuid::Uuid;

use crate::protocol::{CommandId, MessageId, ThreadId};

/// The namespace of everything that the gateway derives. Never change it: ids of calls that were made must stay the same.
const NAMESPACE: Uuid = Uuid::from_u128(0x7433_636f_6465_4d43_5000_6469_7370_6174);

/// Who asked for what, where.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Intent {
    pub(super) client: String,
    pub(super) machine: String,
    pub(super) request: String,
}

impl Intent {
    pub(super) fn thread(&self) -> ThreadId {
        ThreadId(self.derive("thread"))
    }

    /// The id of a message. What T3 took and was taken off again keeps its id, so that another attempt needs another.
    pub(super) fn message(&self, attempt: u32) -> MessageId {
        MessageId(match attempt {
            0 => self.derive("message"),
            later => self.derive(&format!("message:{later}")),
        })
    }

    /// The id of a command: a new attempt is another command for T3, which remembers what it refused.
    pub(super) fn command(&self, step: &str, attempt: u32) -> CommandId {
        CommandId(self.derive(&format!("command:{step}:{attempt}")))
    }

    fn derive(&self, what: &str) -> String {
        let mut name = Vec::new();
        // With its length before each part, no two intents read alike.
        for part in [&self.client, &self.machine, &self.request, what] {
            name.extend_from_slice(&(part.len() as u64).to_be_bytes());
            name.extend_from_slice(part.as_bytes());
        }
        Uuid::new_v5(&NAMESPACE, &name).to_string()
    }
}

/// The id of a command that is not repeated.
pub(super) fn fresh_command() -> CommandId {
    CommandId(Uuid::new_v4().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intent(client: &str, machine: &str, request: &str) -> Intent {
        Intent {
            client: client.to_owned(),
            machine: machine.to_owned(),
            request: request.to_owned(),
        }
    }

    #[test]
    fn ids_are_the_same_for_ever() {
        let intent = intent("dispatcher", "mac", "r-1");
        insta::with_settings!({snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/snapshots"), prepend_module_to_snapshot => true}, {
            insta::assert_snapshot!(format!("{} {} {}", intent.thread().0, intent.message(0).0, intent.command("launch", 0).0));
        });
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(intent("ab", "c", "d").thread(), intent("a", "bc", "d").thread());
        assert_ne!(
            intent("a", "b", "d").command("launch", 0),
            intent("a", "b", "d").command("launch", 1)
        );
        assert_ne!(intent("a", "b", "d").message(0), intent("a", "b", "d").message(1));
    }
}
