//! What of rmcp's log is noise: lines at error level for what is daily life here. `cli` puts it into its subscriber's filter.

use std::fmt::{Debug, Write as _};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter};

/// Where rmcp says it.
const TARGET: &str = "rmcp::service";

/// What it says whenever a client hung up before its answer: the tool has ended by then, and the gateway knows.
const HUNG_UP: &str = "failed to send pending response during drain";

/// Lets everything pass but rmcp's complaint about each client that hung up.
#[derive(Clone, Copy, Debug, Default)]
pub struct WithoutHangUps;

impl<S: Subscriber> Filter<S> for WithoutHangUps {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        // What stands for the most of the log is not to be asked about event by event.
        if metadata.target() == TARGET {
            Interest::sometimes()
        } else {
            Interest::always()
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        // It sets no level; without this one, a filter beside it would not either.
        Some(LevelFilter::TRACE)
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        if event.metadata().target() != TARGET {
            return true;
        }
        let mut message = Message::default();
        event.record(&mut message);
        !message.0.starts_with(HUNG_UP)
    }
}

/// An event's message.
#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            // Writing into a string does not fail.
            let _ = write!(self.0, "{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing::Level;
    use tracing_subscriber::Layer as _;
    use tracing_subscriber::filter::{FilterExt as _, Targets};
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn only_the_complaint_about_hang_ups_is_left_out() {
        let written = Written::default();
        let writer = written.clone();
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(move || writer.clone())
            .with_filter(Targets::new().with_default(Level::INFO).and(WithoutHangUps));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
            tracing::error!(target: "rmcp::service", error = "closed", "failed to send pending response during drain");
            tracing::error!(target: "rmcp::service", "fail to close sink");
            tracing::error!(target: "t3code_mcp", "failed to send pending response during drain");
            tracing::debug!(target: "t3code_mcp", "below the level");
            assert_eq!(LevelFilter::current(), LevelFilter::INFO);
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains("fail to close sink"));
    }
}
