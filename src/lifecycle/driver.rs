//! One run or one request on its way through its machine: observations go in, each event comes out once.
//!
//! Used by whoever keeps what was last known (a state can be stored by its name and taken up again). It never looks at a thread
//! as a whole: that is the fold's.

use super::{HookEvent, RequestObservation, RequestState, RunObservation, RunState, Transition};

/// A machine of the table.
pub trait Declared: Copy + Eq {
    /// What can be observed of it.
    type Observation: Copy;
    /// Where each begins.
    const BEGIN: Self;

    /// What an observation makes of it.
    fn on(self, observation: Self::Observation) -> Transition<Self>;
}

impl Declared for RunState {
    type Observation = RunObservation;
    const BEGIN: Self = Self::INITIAL;

    fn on(self, observation: RunObservation) -> Transition<Self> {
        Self::on(self, observation)
    }
}

impl Declared for RequestState {
    type Observation = RequestObservation;
    const BEGIN: Self = Self::INITIAL;

    fn on(self, observation: RequestObservation) -> Transition<Self> {
        Self::on(self, observation)
    }
}

/// One run's way.
pub type RunDriver = Driver<RunState>;

/// One request's way.
pub type RequestDriver = Driver<RequestState>;

/// Where one run or request is, and what is still to be told of it.
///
/// `state` reads, `handle` takes an observation, `poll_event` gives what is to be told.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Driver<S> {
    state: S,
    event: Option<HookEvent>,
}

impl<S: Declared> Driver<S> {
    /// One that nothing was heard of.
    pub fn new() -> Self {
        Self::at(S::BEGIN)
    }

    /// One that was left in this state, with nothing to tell.
    pub fn at(state: S) -> Self {
        Self { state, event: None }
    }

    /// Where it is.
    pub fn state(&self) -> S {
        self.state
    }

    /// Takes an observation; true if the state changed.
    pub fn handle(&mut self, observation: S::Observation) -> bool {
        let Transition { to, emit } = self.state.on(observation);
        let changed = to != self.state;
        self.state = to;
        // The build refuses a table in which a second event could follow a first, so none is ever overwritten.
        self.event = self.event.or(emit);
        changed
    }

    /// What is to be told now; each event comes out once.
    pub fn poll_event(&mut self) -> Option<HookEvent> {
        self.event.take()
    }
}

impl<S: Declared> Default for Driver<S> {
    fn default() -> Self {
        Self::new()
    }
}
