//! What can go wrong with a machine, on demand: for tests of everything that talks to one.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::host::Host;
use super::model::Model;

/// Breaks a simulated server, and mends it.
#[derive(Clone, Debug)]
pub struct Faults {
    host: Arc<Host>,
}

/// A database as it was, to be put back later: a restored backup.
#[derive(Clone, Debug)]
pub struct Backup(Box<Model>);

impl Faults {
    pub(crate) fn new(host: Arc<Host>) -> Self {
        Self { host }
    }

    /// Cuts every socket without a close frame, as a killed process does. New ones are welcome.
    pub fn drop_sockets(&self) {
        self.host.cut_sockets();
    }

    /// Stops answering anything, sockets and requests alike, as a stopped process does; or goes on where it stopped.
    pub fn hang(&self, on: bool) {
        self.host.switches.hang.send_replace(on);
    }

    /// Lets every answer wait so long; zero ends it.
    pub fn delay(&self, wait: Duration) {
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        self.host.switches.delay_ms.store(millis, Ordering::Relaxed);
    }

    /// Applies the next command or launch, and never answers it; with `cut` its socket goes as well.
    pub fn lose_next_answer(&self, cut: bool) {
        self.host.switches.lose_socket.store(cut, Ordering::Relaxed);
        self.host.switches.lose_answers.fetch_add(1, Ordering::Relaxed);
    }

    /// Applies commands and launches and keeps their answers back; or sends those that were kept.
    pub fn hold_answers(&self, on: bool) {
        self.host.switches.hold_answers.send_replace(on);
    }

    /// Shows nothing of what happens in the shell's streams, as a server whose windows are long; or all of it at once, as it is then.
    pub fn hold_shell(&self, on: bool) {
        self.host.switches.hold_shell.send_replace(on);
    }

    /// Answers bounded reads with 404 and a page, as a server with the version gate may that has its app and not that route.
    pub fn lack_bounded_reads(&self) {
        self.host.switches.no_bounded_reads.store(true, Ordering::Relaxed);
    }

    /// A server of protocol 1 has no routes for shell and threads, and no markers, as the oldest ones.
    pub fn lack_routes(&self) {
        self.host.change(|state, _| {
            if let Some(older) = &mut state.older {
                older.routeless = true;
            }
        });
    }

    /// A server of protocol 1 takes answers to requests, and its agents do not get them; or they do again.
    pub fn lose_responses(&self, on: bool) {
        self.host.change(|state, _| {
            if let Some(older) = &mut state.older {
                older.refusals.deaf = on;
            }
        });
    }

    /// A server of protocol 1 refuses the next command of this type, and remembers that.
    pub fn refuse_next(&self, kind: &str) {
        self.host.change(|state, _| {
            if let Some(older) = &mut state.older {
                older.refusals.next = Some(kind.to_owned());
            }
        });
    }

    /// A server of protocol 1 tells its projects from now on in a way that nobody can read, to those who connect anew; the others are cut off.
    pub fn spoil_projects(&self) {
        self.host.change(|state, _| {
            if let Some(older) = &mut state.older {
                older.spoils_projects = true;
            }
        });
        self.host.cut_sockets();
    }

    /// Knows a procedure no more, as a server that is older than it.
    pub fn lack_procedure(&self, tag: &str) {
        let absent = &self.host.switches.absent;
        absent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(tag.to_owned());
    }

    /// Gives the machine another database: a new environment id, the same projects, no threads.
    pub fn fresh_database(&self, environment_id: &str) {
        self.host.change(|state, now| {
            let mut options = state.model.options().clone();
            environment_id.clone_into(&mut options.environment_id);
            let projects = state.model.project_list(now);
            let mut model = Model::new(options);
            for project in projects.get("projects").and_then(Value::as_array).into_iter().flatten() {
                let mut create = project.clone();
                create["type"] = json!("project.create");
                create["commandId"] = json!(format!("fresh-{environment_id}-{}", project["id"]));
                create["projectId"] = project["id"].clone();
                let _ = model.handle_project(now, &create, true);
            }
            state.model = model;
        });
        self.host.cut_sockets();
    }

    /// Keeps the database as it is now.
    pub fn backup(&self) -> Backup {
        Backup(Box::new(self.host.read().model.clone()))
    }

    /// Puts an older database back, under the same environment id.
    pub fn restore(&self, backup: Backup) {
        self.host.change(|state, _| state.model = *backup.0);
        self.host.cut_sockets();
    }

    /// A bearer is no longer good. Open sockets stay open.
    pub fn revoke_token(&self, token: &str) {
        self.host.change(|state, now| state.auth.revoke(token, now));
    }

    /// Issues a bearer with these scopes; all of them where none is named.
    pub fn issue_token(&self, scopes: &[&str]) -> String {
        self.host
            .change(|state, now| state.auth.issue(scopes, Some("simulated"), now))
    }

    /// Makes a pairing code that lives so long.
    pub fn pairing_code(&self, life: Duration) -> String {
        self.host.change(|state, now| state.auth.pairing_code(life, now))
    }

    /// Whether a pairing code was not spent yet.
    pub fn has_pairing_code(&self, code: &str) -> bool {
        self.host.change(|state, _| state.auth.has_code(code))
    }

    /// Makes a pairing code that lives so long and grants these scopes alone.
    pub fn pairing_code_for(&self, scopes: &[&str], life: Duration) -> String {
        self.host
            .change(|state, now| state.auth.pairing_code_for(scopes, life, now))
    }

    /// Bearers that are issued or exchanged from now on live so long.
    pub fn token_life(&self, life: Duration) {
        self.host.change(|state, _| state.auth.set_life(life));
    }

    /// Pushes an item into every open shell stream, whatever it says.
    pub fn push_shell_item(&self, item: Value) {
        let _ = self.host.raw.send(item);
    }

    /// Sends `other` wherever a run's status is `own`, as a newer server with more words might.
    pub fn rename_status(&self, own: &str, other: &str) {
        self.host.change(|state, _| state.model.set_word(own, other));
    }

    /// Switches a provider instance off or on.
    pub fn set_provider_enabled(&self, instance: &str, enabled: bool) {
        self.host
            .change(|state, _| state.model.set_provider_enabled(instance, enabled));
        self.tell_config();
    }

    /// Shows these fields of a provider instance, whatever it would show: a login that ended, models that came, limits.
    pub fn show_provider(&self, instance: &str, fields: &Value) {
        self.host.change(|state, _| state.model.show_provider(instance, fields));
        self.tell_config();
    }

    /// Whoever listens is told that the configuration changed.
    fn tell_config(&self) {
        self.host.config.send_modify(|changes| *changes += 1);
    }
}
