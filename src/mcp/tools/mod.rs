//! The tools, one file each and each alike: arguments, a call into `gateway`, the answer in one line.

mod add_project;
mod answer;
mod archive;
mod diff;
mod dispatch;
mod dispatch_many;
mod events;
mod interrupt;
mod machines;
mod models;
mod pair;
mod projects;
mod queue;
mod status;
mod thread;
mod threads;
mod wait;
mod watch;

pub use add_project::AddProject;
pub use answer::Answer;
pub use archive::Archive;
pub use diff::Diff;
pub use dispatch::Dispatch;
pub use dispatch_many::DispatchMany;
pub use events::Events;
pub use interrupt::Interrupt;
pub use machines::Machines;
pub use models::Models;
pub use pair::Pair;
pub use projects::Projects;
pub use queue::Queue;
pub use status::Status;
pub use thread::Thread;
pub use threads::Threads;
pub use wait::Wait;
pub use watch::Watch;

use super::tool::Route;

/// All tools, in the order in which an agent meets them.
pub(super) fn all() -> Vec<Route> {
    vec![
        Route::of::<Machines>(),
        Route::of::<Projects>(),
        Route::of::<Models>(),
        Route::of::<Threads>(),
        Route::of::<Dispatch>(),
        Route::of::<DispatchMany>(),
        Route::of::<Wait>(),
        Route::of::<Thread>(),
        Route::of::<Diff>(),
        Route::of::<Answer>(),
        Route::of::<Interrupt>(),
        Route::of::<Queue>(),
        Route::of::<Watch>(),
        Route::of::<Events>(),
        Route::of::<Archive>(),
        Route::of::<AddProject>(),
        Route::of::<Status>(),
        Route::of::<Pair>(),
    ]
}

/// `1 day`, `2 days`.
fn count_days(days: i64) -> String {
    let plural = if days == 1 { "" } else { "s" };
    format!("{days} day{plural}")
}

/// `1 thread`, `2 threads`.
fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}
