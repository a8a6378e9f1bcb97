//! What a tool is to the server, and what happens around each call: arguments in, work, result out.
//!
//! The tools themselves are in `tools`, one file each. Here is what they have in common: schemas made once, wrong arguments told by field,
//! a read that ends when nobody hears it, a mutation that never does, and a result with the same facts as data and as text.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::request::Parts;
use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, ToolAnnotations};
use rmcp::service::RequestContext;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::gateway::{Caller, Delivery, Gateway, ToolError};
use crate::mcp::fate::Fate;
use crate::mcp::progress::Progress;
use crate::mcp::tally::Tally;
use crate::mcp::{caller, errors, lengths, schema, text};

/// What a call of the tool does to the world.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Effect {
    /// Nothing: it may end when its client is gone.
    Reads,
    /// It starts or changes work, and an equal call does so again: it goes on without its client.
    Changes,
}

/// Whether a call may be repeated when nobody knows whether it was done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Again {
    /// It changes nothing, or finds what it did before.
    Freely,
    /// It might hit what came after.
    Never,
}

/// One tool.
pub trait Tool: 'static {
    /// Its name.
    const NAME: &'static str;
    /// What people see.
    const TITLE: &'static str;
    /// What models read, key facts first.
    const DESCRIPTION: &'static str;
    /// What it does to the world.
    const EFFECT: Effect;
    /// Whether the gateway may do it again when nobody knows whether it was done.
    const AGAIN: Again = match Self::EFFECT {
        Effect::Reads => Again::Freely,
        Effect::Changes => Again::Never,
    };
    /// What it takes.
    type Args: DeserializeOwned + JsonSchema + Send;
    /// What it answers.
    type Answer: Serialize + JsonSchema + Send;

    /// Does it.
    fn call(
        gateway: &Arc<Gateway>,
        call: &Call,
        args: Self::Args,
    ) -> impl Future<Output = Result<Self::Answer, ToolError>> + Send;

    /// The answer in one line.
    fn summary(answer: &Self::Answer) -> String;
}

/// One call, beside its arguments.
#[derive(Debug)]
pub struct Call {
    /// Who calls.
    pub caller: Caller,
    /// Where heartbeats go, if the client asked for them.
    pub progress: Option<Progress>,
}

/// What the server holds of a tool.
#[derive(Clone)]
pub(super) struct Route {
    /// What `tools/list` shows.
    pub(super) tool: rmcp::model::Tool,
    pub(super) effect: Effect,
    pub(super) again: Again,
    /// How its calls came out.
    pub(super) tally: Arc<Tally>,
    /// Runs it.
    pub(super) run: for<'a> fn(&'a Arc<Gateway>, &'a Request<'a>) -> BoxFuture<'a, CallToolResult>,
}

/// What a route is called with.
pub(super) struct Request<'a> {
    pub(super) schema: &'a JsonObject,
    pub(super) arguments: Option<JsonObject>,
    pub(super) context: RequestContext<RoleServer>,
    pub(super) stdio_origin: Option<&'a str>,
    /// How long it was passed on before it is done here.
    pub(super) under_way: Duration,
    /// How many heartbeats it has told: they count on, wherever it is done.
    pub(super) beats: AtomicU64,
}

impl Route {
    /// The route to a tool.
    pub(super) fn of<T: Tool>() -> Self {
        let read_only = match T::EFFECT {
            Effect::Reads => true,
            Effect::Changes => false,
        };
        let annotations = ToolAnnotations::from_raw(
            Some(T::TITLE.to_owned()),
            Some(read_only),
            Some(!read_only),
            Some(read_only),
            // Agents on other machines, with whatever they reach.
            Some(true),
        );
        let tool = rmcp::model::Tool::new(T::NAME, T::DESCRIPTION, schema::input::<T::Args>())
            .with_title(T::TITLE)
            .with_raw_output_schema(schema::output::<T::Answer>())
            .with_annotations(annotations);
        Self {
            tool,
            effect: T::EFFECT,
            again: T::AGAIN,
            tally: Arc::default(),
            run: |gateway, request| run::<T>(gateway, request).boxed(),
        }
    }
}

async fn run<T: Tool>(gateway: &Arc<Gateway>, request: &Request<'_>) -> CallToolResult {
    let cancelled = request.context.ct.clone();
    let parts = request.context.extensions.get::<Parts>();
    let fate = parts.and_then(|parts| parts.extensions.get::<Fate>()).cloned();
    let delivery = fate
        .as_ref()
        .map_or_else(Delivery::reported, |fate| fate.delivery().clone());

    // The answer of a call that its client withdraws is lost from that moment, whatever the transport still does.
    let gone = async {
        if let Some(fate) = &fate {
            tokio::select! {
                () = cancelled.cancelled() => fate.withdraw(),
                () = fate.lost().cancelled() => {}
            }
        } else {
            cancelled.cancelled().await;
            delivery.lost();
        }
    };
    let mut work = std::pin::pin!(answer::<T>(gateway, request, parts, delivery.clone()));
    let done = tokio::select! {
        biased;
        done = &mut work => done,
        () = gone => match T::EFFECT {
            Effect::Reads => Err(errors::unheard(T::NAME)),
            Effect::Changes => work.await,
        },
    };
    if fate.is_none() {
        // Over stdio the answer goes into the pipe right away. What was lost before stays lost.
        delivery.answered();
    }
    match done {
        Ok(answer) => result::<T>(&answer),
        Err(error) => errors::failed(&error),
    }
}

async fn answer<T: Tool>(
    gateway: &Arc<Gateway>,
    request: &Request<'_>,
    parts: Option<&Parts>,
    delivery: Delivery,
) -> Result<T::Answer, ToolError> {
    let mut caller = match caller::passport(parts, &request.context.meta)? {
        Some(passport) => passport
            .caller(gateway.fleet(), delivery)
            .map_err(|error| errors::pattern(&error))?,
        None => caller::caller(parts, request.stdio_origin, delivery)?,
    };
    caller.under_way = caller.under_way.saturating_add(request.under_way);
    let none = JsonObject::new();
    let arguments = request.arguments.as_ref().unwrap_or(&none);
    lengths::check(T::NAME, arguments)?;
    let args = serde_path_to_error::deserialize(arguments)
        .map_err(|error| errors::wrong_arguments(T::NAME, request.schema, &error))?;
    match T::EFFECT {
        Effect::Reads => tracing::debug!(tool = T::NAME, client = %caller.client, "called"),
        Effect::Changes => tracing::info!(tool = T::NAME, client = %caller.client, "called"),
    }
    let token = request.context.meta.get_progress_token();
    let call = Call {
        caller,
        progress: token.map(|token| {
            Progress::new(
                request.context.peer.clone(),
                token,
                request.beats.load(Ordering::Relaxed),
            )
        }),
    };
    T::call(gateway, &call, args).await
}

/// The same facts as data and as text.
fn result<T: Tool>(answer: &T::Answer) -> CallToolResult {
    let written = serde_json::to_string(answer).and_then(|json| Ok((serde_json::from_str::<Value>(&json)?, json)));
    let (data, json) = match written {
        Ok(written) => written,
        Err(error) => {
            tracing::error!(tool = T::NAME, %error, "an answer could not be written");
            return errors::failed(&errors::internal(T::NAME));
        }
    };
    let told = text::told(&T::summary(answer), &json);
    let mut result = CallToolResult::success(vec![ContentBlock::text(told)]);
    result.structured_content = Some(data);
    result
}
