//! A machine: where it is, what its token is, what may be seen and done there.

use super::{Check, DEFAULT_FRAME_LIMIT};
use crate::config::credentials::Kept;
use crate::config::raw::RawMachine;
use crate::config::state::StateError;
use crate::config::{ConfigError, MachineConfig, Note, TokenSource, Unnamed, secrets, values};
use crate::protocol::RuntimeMode;

impl Check<'_> {
    pub(super) fn machine(
        &mut self,
        name: String,
        raw: RawMachine,
        ceiling: Option<RuntimeMode>,
    ) -> Option<MachineConfig> {
        let path = format!("machines.{name}");
        let key = |key: &str| format!("{path}.{key}");
        let named = self.take(&path, values::name(&name));
        let url = self.required(&key("url"), "url = \"http://127.0.0.1:3773\"", raw.url.as_deref());
        let url = url.and_then(|url| self.take(&key("url"), values::url(url)));
        let token = self.token_source(&name, &path, &raw);
        let projects = self.required(&key("projects"), "projects = [\"*\"] to show all", raw.projects);
        let projects = projects.and_then(|projects| self.take(&key("projects"), values::patterns(projects)));
        let model = raw
            .model
            .and_then(|model| self.take(&key("model"), values::model(model)));
        let runtime_mode = self.mode(&key("runtime_mode"), raw.runtime_mode.as_deref());
        let own_ceiling = self.mode(&key("max_runtime_mode"), raw.max_runtime_mode.as_deref());
        let max_runtime_mode = own_ceiling.into_iter().chain(ceiling).min();
        if let (Some(mode), Some(max)) = (runtime_mode, max_runtime_mode)
            && mode > max
        {
            self.notes.push(Note::Warning(format!(
                "{name}: its runtime_mode {mode} is above the ceiling {max}; dispatches there start in {max}"
            )));
        }
        let ca_file = raw.ca_file.and_then(|file| self.ca_file(&key("ca_file"), &file));
        let frame_limit = self.take(&key("frame_limit_mib"), values::frame_limit(raw.frame_limit_mib));
        named?;
        Some(MachineConfig {
            name,
            url: url?,
            token: token?,
            agent_pairing: raw.agent_pairing,
            in_state: false,
            projects: projects?,
            model,
            options: raw.options,
            runtime_mode,
            max_runtime_mode,
            scratch: raw.scratch,
            ca_file,
            frame_limit: frame_limit?,
        })
    }

    /// Where the token comes from: by one of the two ways.
    fn token_source(&mut self, name: &str, path: &str, raw: &RawMachine) -> Option<TokenSource> {
        let key = |key: &str| format!("{path}.{key}");
        if raw.agent_pairing && !raw.pairing {
            self.wrong(
                &key("agent_pairing"),
                "is true without pairing = true: there is no credential that agents could renew. Set that, or take this out",
            );
        }
        match (raw.token_env.as_deref(), raw.pairing) {
            (Some(variable), false) => {
                if self.context.kept.contains_key(name) {
                    self.notes.push(Note::Warning(format!(
                        "{name} was paired, and its token comes from {variable} all the same: set pairing = true instead of token_env, or forget \
                         the other with `t3code-mcp unpair {name}`"
                    )));
                }
                self.machine_token(name, &key("token_env"), variable)
            }
            (Some(_), true) => {
                self.wrong(
                    &key("pairing"),
                    "is true, and there is token_env: which token is meant? Take one of them out",
                );
                None
            }
            (None, true) => {
                let kept = self.context.kept.get(name);
                let kept = kept.and_then(|kept| self.kept(name, kept.as_ref()));
                Some(TokenSource::Pairing(kept.map(Box::new)))
            }
            (None, false) => self.required(&key("token_env"), "token_env = \"T3_TOKEN\", or pairing = true", None),
        }
    }

    /// A credential that is kept, or a note of why it cannot be used.
    pub(super) fn kept(&mut self, name: &str, kept: Result<&Kept, &StateError>) -> Option<Kept> {
        match kept {
            Ok(kept) => Some(kept.clone()),
            Err(error) => {
                self.notes.push(Note::Credential {
                    machine: Some(name.to_owned()),
                    problem: error.to_string(),
                });
                None
            }
        }
    }

    /// What holds for machines that no file describes. What is wrong with it was said already where there are others.
    pub(super) fn unnamed(&mut self, ceiling: Option<RuntimeMode>, alone: bool) -> Unnamed {
        let model = self.context.model.clone().and_then(|(model, place)| {
            let judged = values::model(model);
            if let (Err(problem), true) = (&judged, alone) {
                self.errors.push(ConfigError::new(place, problem.clone()));
            }
            judged.ok()
        });
        Unnamed {
            model,
            max_runtime_mode: ceiling,
            frame_limit: DEFAULT_FRAME_LIMIT,
        }
    }

    fn machine_token(&mut self, name: &str, path: &str, variable: &str) -> Option<TokenSource> {
        self.take(path, secrets::variable_name(variable))?;
        self.token_variables.insert(variable.to_owned());
        let token = match secrets::token(self.context.environment, variable) {
            Ok(token) => token,
            Err(problem) => {
                self.errors
                    .push(ConfigError::new(self.context.environment.place(variable), problem));
                return None;
            }
        };
        if token.is_none() {
            self.notes.push(Note::NoToken {
                machine: name.to_owned(),
                variable: variable.to_owned(),
            });
        }
        Some(TokenSource::Variable {
            variable: variable.to_owned(),
            token,
        })
    }
}
