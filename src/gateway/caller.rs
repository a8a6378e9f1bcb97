//! Who calls: the one value that every gateway function takes first. `mcp` and `cli` make it; nothing here trusts more than it says.

use std::time::Duration;

use crate::fleet::Limits;
use crate::gateway::delivery::Delivery;

/// Who makes a call, from where, and within which limits. Made anew for each call.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// The configured client's name: what request ids and remembered dispatches belong to.
    pub client: String,
    /// The conversation that the call came from, echoed verbatim in events; none clears it.
    pub origin: Option<String>,
    /// What this client may see and do; the default is everything that the machines allow.
    pub limits: Limits,
    /// Whether the answer of this call got to the caller; the edge reports it.
    pub delivery: Delivery,
    /// How long the call was under way before it came here: a wait is that much shorter.
    pub under_way: Duration,
}

impl Caller {
    /// A caller without limits of its own.
    pub fn named(client: impl Into<String>) -> Self {
        Self {
            client: client.into(),
            ..Self::default()
        }
    }
}
