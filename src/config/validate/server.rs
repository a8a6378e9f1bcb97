//! The endpoint: where it listens, who may ask, and what each client is held to.

use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};

use super::Check;
use crate::config::error::nearest;
use crate::config::raw::{RawClient, RawServer};
use crate::config::{Auth, ClientConfig, DEFAULT_CLIENT, ServerConfig, values};

impl Check<'_> {
    pub(super) fn server(
        &mut self,
        raw: RawServer,
        machines: &[String],
        bearer: Option<&SecretString>,
    ) -> Option<ServerConfig> {
        let host = self.take("server.host", values::host(&raw.host));
        let port = u16::try_from(raw.port).map_err(|_| format!("is {}. Write a number from 0 to 65535", raw.port));
        let port = self.take("server.port", port);
        let auth = match raw.auth.as_str() {
            "bearer" => Some(Auth::Bearer),
            "none" => Some(Auth::None),
            _ => {
                self.wrong("server.auth", "is neither \"bearer\" nor \"none\". Write one of them");
                None
            }
        };
        if auth == Some(Auth::None) && host.is_some_and(|host| !host.is_loopback()) && !raw.insecure {
            self.wrong(
                "server.auth",
                format!(
                    "is \"none\" on {}, where others can reach it and do everything. Set auth = \"bearer\", or insecure = true if that is meant",
                    raw.host
                ),
            );
        }
        if auth == Some(Auth::None) && !raw.client.is_empty() {
            self.wrong("server.auth", "is \"none\", which leaves the limits of the named clients without effect. Set auth = \"bearer\", or take the clients out");
        }
        if !raw.default_bearer && raw.client.is_empty() {
            self.wrong(
                "server.default_bearer",
                "is false and there is no [[server.client]], so nobody could call. Add a client, or leave it true",
            );
        }
        for (index, value) in raw.allowed_hosts.iter().enumerate() {
            self.take(&format!("server.allowed_hosts[{index}]"), values::allowed_host(value));
        }
        let mut allowed_origins = Vec::new();
        for (index, value) in raw.allowed_origins.iter().enumerate() {
            allowed_origins.extend(self.take(
                &format!("server.allowed_origins[{index}]"),
                values::allowed_origin(value),
            ));
        }
        let wait_without_progress = self.duration(
            "server.wait_without_progress",
            &raw.wait_without_progress,
            Duration::from_secs(5)..=Duration::from_hours(1),
        );
        let clients = self.clients(raw.client, machines, bearer);
        Some(ServerConfig {
            host: host?,
            port: port?,
            allowed_hosts: raw.allowed_hosts,
            allowed_origins,
            auth: auth?,
            default_bearer: raw.default_bearer,
            wait_without_progress: wait_without_progress?,
            clients: clients?,
        })
    }

    fn clients(
        &mut self,
        raw: Vec<RawClient>,
        machines: &[String],
        bearer: Option<&SecretString>,
    ) -> Option<Vec<ClientConfig>> {
        let mut clients: Vec<ClientConfig> = Vec::new();
        let mut whole = true;
        for (index, raw) in raw.into_iter().enumerate() {
            let path = format!("server.client[{index}]");
            let Some(client) = self.client(&path, raw, machines) else {
                whole = false;
                continue;
            };
            if clients.iter().any(|other| other.name == client.name) {
                self.wrong(
                    &format!("{path}.name"),
                    format!(
                        "{:?} stands there twice. Give each client a name of its own",
                        client.name
                    ),
                );
            }
            let same = |token: &SecretString| token.expose_secret() == client.token.expose_secret();
            let twin = clients
                .iter()
                .find(|other| same(&other.token))
                .map(|other| other.name.as_str());
            if let Some(twin) = twin.or_else(|| bearer.is_some_and(same).then_some(DEFAULT_CLIENT)) {
                let twin = twin.to_owned();
                self.wrong(
                    &format!("{path}.token_env"),
                    format!("gives {:?} the token of {twin:?}, so the two cannot be told apart. Give each a token of its own", client.name),
                );
            }
            clients.push(client);
        }
        whole.then_some(clients)
    }

    fn client(&mut self, path: &str, raw: RawClient, machines: &[String]) -> Option<ClientConfig> {
        let key = |key: &str| format!("{path}.{key}");
        let name = self.required(&key("name"), "name = \"dispatcher\"", raw.name);
        let name = name.and_then(|name| self.take(&key("name"), values::client_name(name)));
        let variable = self.required(&key("token_env"), "token_env = \"DISPATCHER_TOKEN\"", raw.token_env);
        let token = variable.and_then(|variable| {
            self.named_token(
                &key("token_env"),
                &variable,
                "Set it to the client's token, or take the client out",
            )
        });
        for machine in raw.machines.iter().flatten() {
            if !machines.contains(machine) {
                let hint = match nearest(machine, machines.iter().map(String::as_str)) {
                    Some(meant) => format!("Did you mean {meant:?}?"),
                    None => format!("Configured are: {}", machines.join(", ")),
                };
                self.wrong(
                    &key("machines"),
                    format!("names {machine:?}, which is not configured. {hint}"),
                );
            }
        }
        let projects = raw
            .projects
            .and_then(|projects| self.take(&key("projects"), values::patterns(projects)));
        let max_runtime_mode = self.mode(&key("max_runtime_mode"), raw.max_runtime_mode.as_deref());
        Some(ClientConfig {
            name: name?,
            token: token?,
            machines: raw.machines,
            projects,
            max_runtime_mode,
            read_only: raw.read_only,
        })
    }
}
