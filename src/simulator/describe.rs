//! What a server says about itself: its descriptor and its configuration.

use serde_json::{Value, json};

use super::model::{ModelOptions, Provider, ProviderModel, Stamp};

/// The version that the recorded server gave.
const RECORDED_VERSION: &str = "0.0.33";
/// The version of a server that speaks protocol 1.
const OLDER_VERSION: &str = "0.0.32";
/// A version after the gate.
const NEWER_VERSION: &str = "0.0.40";

/// The descriptor that anybody may read. Only servers with the version gate tell their protocol.
pub(crate) fn descriptor(options: &ModelOptions, (label, older): (&str, bool)) -> Value {
    let mut descriptor = json!({
        "environmentId": options.environment_id,
        "label": label,
        "platform": {"os": "linux", "arch": "x64"},
        "serverVersion": options.version.as_deref().unwrap_or(match (older, options.newer) {
            (true, _) => OLDER_VERSION,
            (false, true) => NEWER_VERSION,
            (false, false) => RECORDED_VERSION,
        }),
        "capabilities": {
            "repositoryIdentity": true,
            "connectionProbe": true,
            "pullRequests": true,
            "threadSettlement": true,
            "threadSnooze": true,
            "threadPinning": true,
            "threadPinReorder": true,
            "threadTitleRegeneration": true,
            "threadVisitedTracking": true,
        },
    });
    if options.newer && !older {
        descriptor["orchestrationProtocolVersion"] = Value::from(2);
    }
    descriptor
}

/// How one may sign in.
pub(crate) fn auth() -> Value {
    json!({
        "policy": "loopback-browser",
        "bootstrapMethods": ["one-time-token"],
        "sessionMethods": ["browser-session-cookie", "bearer-access-token", "dpop-access-token"],
        "sessionCookieName": "t3_session_3773_3380174d42ea",
    })
}

/// The whole configuration, without the keybindings.
pub(crate) fn config(options: &ModelOptions, name: (&str, bool), cwd: &str, now: Stamp) -> Value {
    let home = &options.home;
    json!({
        "environment": descriptor(options, name),
        "auth": auth(),
        "cwd": cwd,
        "keybindingsConfigPath": format!("{home}/userdata/keybindings.json"),
        "keybindings": [],
        "issues": [],
        "providers": providers(options, now),
        "availableEditors": [],
        "observability": {
            "logsDirectoryPath": format!("{home}/userdata/logs"),
            "localTracingEnabled": true,
            "otlpTracesEnabled": false,
            "otlpMetricsEnabled": false,
        },
        "settings": {
            "enableLegacyTokenStreaming": false,
            "enableProviderUpdateChecks": false,
            "backgroundActivity": {"schemaVersion": 1, "profile": "balanced", "overrides": {}},
            "automaticGitFetchInterval": 30000,
            "providerHealthRefreshInterval": 300_000,
            "backgroundActivityProfile": "balanced",
            "defaultThreadEnvMode": "local",
            "newWorktreesStartFromOrigin": true,
            "addProjectBaseDirectory": "",
            "textGenerationModelSelection": {"instanceId": "grok", "model": "grok-build"},
            "sourceControlWritingStyle": {
                "mode": "repo_conventions", "customInstructions": "", "followChangeRequestTemplates": true,
            },
            "sourceControlWriterModelSelection": null,
            "providers": {},
            "providerInstances": {},
            "observability": {"otlpTracesUrl": "", "otlpMetricsUrl": ""},
        },
        "shellResumeCompletionMarker": true,
        "threadResumeCompletionMarker": true,
        "threadSnapshotPagination": true,
    })
}

/// All provider instances.
pub(crate) fn providers(options: &ModelOptions, now: Stamp) -> Vec<Value> {
    let providers = options.providers.iter();
    providers.map(|it| provider(it, &options.home, now)).collect()
}

fn provider(provider: &Provider, home: &str, now: Stamp) -> Value {
    let version = if provider.enabled {
        Value::from("9.9.9")
    } else {
        Value::Null
    };
    let mut shown = json!({
        "instanceId": provider.instance,
        "driver": provider.driver,
        "displayName": provider.name,
        "continuation": {"groupKey": format!("{}:home:{home}", provider.driver)},
        "showInteractionModeToggle": provider.steers_inside,
        "enabled": provider.enabled,
        "installed": provider.enabled,
        "version": version,
        "status": if provider.enabled { "ready" } else { "disabled" },
        "auth": {"status": "unknown"},
        "checkedAt": now.to_string(),
        "models": provider.models.iter().map(model).collect::<Vec<_>>(),
        "slashCommands": [],
        "skills": [],
        "versionAdvisory": {
            "status": "unknown", "currentVersion": version, "latestVersion": null, "updateCommand": null,
            "canUpdate": false, "checkedAt": now.to_string(), "message": null,
        },
    });
    if !provider.steers_inside {
        shown["requiresNewThreadForModelChange"] = Value::from(true);
    }
    if !provider.enabled {
        shown["message"] = Value::from(format!("{} is disabled in T3 Code settings.", provider.name));
    }
    for (field, value) in provider.shown.as_object().into_iter().flatten() {
        shown[field] = value.clone();
    }
    shown
}

fn model(model: &ProviderModel) -> Value {
    let options: Vec<Value> = model
        .options
        .iter()
        .map(|(id, label, values)| {
            let choices: Vec<Value> = values
                .iter()
                .enumerate()
                .map(|(place, value)| {
                    let mut choice = json!({"id": value, "label": value});
                    if place == 0 {
                        choice["isDefault"] = Value::from(true);
                    }
                    choice
                })
                .collect();
            json!({"id": id, "label": label, "type": "select", "options": choices, "currentValue": values.first()})
        })
        .collect();
    json!({
        "slug": model.slug,
        "name": model.name,
        "isCustom": false,
        "capabilities": {"optionDescriptors": options},
    })
}
