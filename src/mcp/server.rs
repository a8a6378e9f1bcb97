//! The MCP server: which tools there are, and how a call gets to one.
//!
//! `initialize`, `server/discover` and `tools/list` are answered from what was made at start: they wait for no machine and grow no state. A
//! panic in a tool becomes an answer, since rmcp would leave the caller without any. The HTTP layer and [`crate::mcp::stdio`] serve clones of
//! one server.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use jiff::Timestamp;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CustomRequest, CustomResult, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio::sync::{Notify, watch};

use crate::gateway::{ErrorCode, Gateway, ToolError};
use crate::mcp::forward::{Forwarded, Place, forward, is_moved, moved};
use crate::mcp::owner::{About, Owner};
use crate::mcp::tally::{CallCounts, Tally};
use crate::mcp::tool::{Effect, Request, Route, Tool};
use crate::mcp::{caller, errors, instructions, tools};

/// The MCP server. Clones are the same server.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    place: watch::Sender<Place>,
    /// In the order in which they are listed.
    routes: Vec<Route>,
    /// How calls of what is no tool came out.
    strangers: Arc<Tally>,
    started: Timestamp,
    /// The origin of what is dispatched over stdio.
    stdio_origin: Option<String>,
    /// What this process says of itself to others on its state directory.
    about: Option<About>,
    /// Another process asks for its place.
    hand_over: Arc<Notify>,
}

impl Server {
    /// A server with the product's tools, done by this process.
    pub fn new(gateway: Arc<Gateway>) -> Self {
        Self::at(Place::Here(gateway))
    }

    /// The same, done at that place.
    pub fn at(place: Place) -> Self {
        Self {
            inner: Arc::new(Inner {
                place: watch::Sender::new(place),
                routes: tools::all(),
                strangers: Arc::default(),
                started: Timestamp::now(),
                stdio_origin: None,
                about: None,
                hand_over: Arc::default(),
            }),
        }
    }

    /// From now on calls are done by this process, those that wait for an owner included.
    pub fn move_in(&self, gateway: Arc<Gateway>) {
        self.inner.place.send_replace(Place::Here(gateway));
    }

    /// From now on calls are passed on; gives where they were done before.
    pub fn move_out(&self, owner: Arc<Owner>) -> Place {
        self.inner.place.send_replace(Place::There(owner))
    }

    /// The names of the machines behind it.
    pub fn machines(&self) -> Vec<String> {
        match self.place() {
            Place::Here(gateway) => {
                let members = gateway.fleet().members();
                members.iter().map(|member| member.machine.name().to_owned()).collect()
            }
            Place::There(owner) => owner.machines(),
        }
    }

    /// How the calls of each tool came out, and of all names that are no tool's.
    pub fn calls(&self) -> Vec<CallCounts> {
        let routes = self.inner.routes.iter();
        let counts = routes.map(|route| route.tally.read(&route.tool.name));
        counts.chain([self.inner.strangers.read("")]).collect()
    }

    /// When it began.
    pub fn started(&self) -> Timestamp {
        self.inner.started
    }

    /// Waits until what the machines showed until now is in the ledger, at most `within`. Where another process has it, that is its care.
    pub async fn caught_up(&self, within: Duration) {
        if let Place::Here(gateway) = self.place() {
            gateway.caught_up(within).await;
        }
    }

    /// Waits until what goes on behind the answered calls has ended; call it when no call comes in any more.
    pub async fn settled(&self) {
        match self.place() {
            Place::Here(gateway) => gateway.settled().await,
            Place::There(owner) => {
                owner.tasks().close();
                owner.tasks().wait().await;
            }
        }
    }

    /// Where calls are done now.
    pub fn place(&self) -> Place {
        self.inner.place.borrow().clone()
    }

    /// The same with one tool more.
    #[must_use]
    pub fn with_tool<T: Tool>(self) -> Self {
        self.changed(|inner| inner.routes.push(Route::of::<T>()))
    }

    /// The same, for a process that serves stdio on behalf of a conversation.
    #[must_use]
    pub fn with_origin(self, origin: Option<String>) -> Self {
        self.changed(|inner| inner.stdio_origin = origin)
    }

    /// The same, for a process that others work through.
    #[must_use]
    pub fn with_about(self, about: About) -> Self {
        self.changed(|inner| inner.about = Some(about))
    }

    /// What this process says of itself.
    pub fn about(&self) -> Option<&About> {
        self.inner.about.as_ref()
    }

    /// Another process asks for the place of this one.
    pub fn hand_over(&self) {
        self.inner.hand_over.notify_one();
    }

    /// Waits until another process asks for the place of this one.
    pub async fn asked_to_hand_over(&self) {
        self.inner.hand_over.notified().await;
    }

    /// Changes a server that nobody serves yet.
    fn changed(self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = Arc::try_unwrap(self.inner).unwrap_or_else(|shared| Inner {
            place: watch::Sender::new(shared.place.borrow().clone()),
            routes: shared.routes.clone(),
            strangers: Arc::clone(&shared.strangers),
            started: shared.started,
            stdio_origin: shared.stdio_origin.clone(),
            about: shared.about.clone(),
            hand_over: Arc::clone(&shared.hand_over),
        });
        change(&mut inner);
        Self { inner: Arc::new(inner) }
    }

    fn route(&self, name: &str) -> Option<&Route> {
        self.inner.routes.iter().find(|route| route.tool.name == name)
    }

    async fn call(&self, request: CallToolRequestParams, context: RequestContext<RoleServer>) -> CallToolResult {
        let Some(route) = self.route(&request.name) else {
            let names: Vec<&str> = self.inner.routes.iter().map(|route| &*route.tool.name).collect();
            return errors::failed(&errors::unknown_tool(&request.name, &names));
        };
        let mut request = Request {
            schema: &route.tool.input_schema,
            arguments: request.arguments,
            context,
            stdio_origin: self.inner.stdio_origin.as_deref(),
            under_way: Duration::ZERO,
            beats: AtomicU64::new(0),
        };
        let begun = Instant::now();
        loop {
            let gateway = match self.place() {
                Place::Here(gateway) => gateway,
                // Boxed, as rmcp moves the future of each call several times and this part of it is large and seldom needed.
                Place::There(_) => {
                    match Box::pin(forward(self.inner.place.subscribe(), route, &request, begun)).await {
                        Forwarded::Done(result) => return *result,
                        Forwarded::Here(gateway) => {
                            request.under_way = begun.elapsed();
                            gateway
                        }
                    }
                }
            };
            if let Some(result) = self.call_here(&gateway, route, &request).await {
                return result;
            }
        }
    }

    /// Does a call in this process; nothing where it is to go on in another, since this one keeps the ledger no more.
    async fn call_here(&self, gateway: &Arc<Gateway>, route: &Route, request: &Request<'_>) -> Option<CallToolResult> {
        // Nothing that the call could have left half done is used again: locks here recover from poison, and state is the gateway's.
        let mut ran = pin!(AssertUnwindSafe((route.run)(gateway, request)).catch_unwind());
        let goes_on = match route.effect {
            Effect::Reads => {
                tokio::select! {
                    biased;
                    () = gateway.stopping() => None,
                    ran = ran.as_mut() => Some(ran),
                }
            }
            Effect::Changes => Some(ran.as_mut().await),
        };
        let ended = match goes_on {
            Some(ended) => ended,
            None if matches!(self.place(), Place::There(_)) => return None,
            // Whoever passed it on does so again, to the next owner.
            None if caller::can_move_on(request) => return Some(moved()),
            None => ran.await,
        };
        Some(ended.unwrap_or_else(|_| {
            // The panic's own message went to the log by the panic hook.
            tracing::error!(tool = %route.tool.name, "a tool panicked");
            errors::failed(&errors::internal(&route.tool.name))
        }))
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(
                Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")).with_title("T3 Code gateway"),
            )
            .with_instructions(instructions::TEXT)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.inner.routes.iter().map(|route| route.tool.clone()).collect();
        let mut listed = ListToolsResult::with_all_items(tools);
        // The newest revision demands both; the list is the same for every client but may change with an update.
        listed.ttl_ms = Some(0);
        listed.cache_scope = Some(rmcp::model::CacheScope::Public);
        Ok(listed)
    }

    fn get_tool(&self, name: &str) -> Option<rmcp::model::Tool> {
        self.route(name).map(|route| route.tool.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tally = self
            .route(&request.name)
            .map_or(&self.inner.strangers, |route| &route.tally);
        let open = tally.handle_call();
        let result = self.call(request, context).await;
        // What goes on elsewhere has not ended.
        if !is_moved(&result) {
            open.handle_result(&result);
        }
        Ok(result.into())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // A call whose arguments are no object does not even parse as one, and would be told that the method is unknown.
        if request.method == "tools/call" {
            let error = ToolError::new(ErrorCode::InvalidRequest, "`arguments` must be a JSON object.")
                .hint("Send an object with the tool's properties, or leave it out.");
            let result = serde_json::to_value(errors::failed(&error)).unwrap_or_default();
            return Ok(CustomResult::new(result));
        }
        Err(ErrorData::new(
            rmcp::model::ErrorCode::METHOD_NOT_FOUND,
            request.method,
            None,
        ))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::fleet::Fleet;
    use crate::gateway::GatewaySettings;

    fn size_of_call<'s, F>(
        _: impl FnOnce(&'s Server, CallToolRequestParams, RequestContext<RoleServer>) -> F,
    ) -> usize {
        size_of::<F>()
    }

    /// rmcp moves it about ten times.
    #[test]
    fn the_future_of_a_call_is_small() {
        let size = size_of_call(Server::call);
        assert!(size <= 3 * 1024, "{size}");
    }

    /// Deriving the schemas takes longer than many a call.
    #[test]
    fn the_tools_are_made_once_whoever_asks_how_often() {
        let stop = CancellationToken::new();
        let gateway = Gateway::new(Fleet::start(Vec::new(), &stop), GatewaySettings::default(), None, stop);
        let server = Server::new(gateway);
        // As the HTTP service makes one for each session and each call.
        let clone = server.clone();
        for route in &server.inner.routes {
            let name = &*route.tool.name;
            assert!(std::ptr::eq(route, clone.route(name).unwrap()));
            let (first, second) = (server.get_tool(name).unwrap(), clone.get_tool(name).unwrap());
            assert!(Arc::ptr_eq(&first.input_schema, &second.input_schema));
            assert!(Arc::ptr_eq(
                &first.output_schema.unwrap(),
                &second.output_schema.unwrap()
            ));
        }
    }
}
