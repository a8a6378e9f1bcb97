//! What a case is made of: the server's ways, what happens and when, and how reads and receivers do.

use proptest::collection::vec;
use proptest::prelude::*;

/// How many threads a case has at most.
pub const THREADS: usize = 3;

/// A case.
#[derive(Clone, Debug)]
pub struct Case {
    pub server: Server,
    /// Each step with how many milliseconds after the one before.
    pub steps: Vec<(u64, Step)>,
    /// How the reads of threads go, again and again.
    pub reads: Vec<ReadWay>,
    /// What the receiver does with what it gets while it is neither up nor down, again and again.
    pub answers: Vec<Answer>,
}

/// The ways of the T3 server.
#[expect(clippy::struct_excessive_bools, reason = "each is a way of its own")]
#[derive(Clone, Copy, Debug)]
pub struct Server {
    /// A restart holds the queue, and a resumed shell stream brings no snapshot.
    pub newer: bool,
    /// A restart goes on with what it cut off, in another run.
    pub continues: bool,
    /// The shell's snapshot leaves archived threads out.
    pub archive_apart: bool,
    /// So many runs are in a bounded read.
    pub bounded: Option<usize>,
    /// The provider takes a message into the running turn.
    pub steers_inside: bool,
    /// Checkpoints take longer than `finish_timeout`.
    pub slow_checkpoints: bool,
}

/// Who sends a message.
#[derive(Clone, Copy, Debug)]
pub enum Sender {
    /// A client of the gateway.
    Us {
        /// The run's events are wanted.
        watch: bool,
        /// Which conversation it came from.
        origin: u8,
        fate: Fate,
    },
    /// A person in front of T3.
    Person,
}

/// What becomes of a message of ours on its way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// It is known.
    Known,
    /// The answer is lost.
    AnswerLost,
    /// The gateway dies before it is sent.
    DiesBefore,
    /// The gateway dies, and T3 gets it so many milliseconds later.
    DiesMeanwhile(u64),
    /// The gateway dies before the answer comes.
    DiesAfter,
}

/// How a message goes to a thread that is busy.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    Plain,
    Steer,
    Restart,
}

#[derive(Clone, Debug)]
pub enum Step {
    Send {
        thread: usize,
        sender: Sender,
        way: Way,
        prompt: &'static str,
    },
    /// A pending request is answered as it wants to be, or refused.
    Answer {
        thread: usize,
        accept: bool,
    },
    Interrupt {
        thread: usize,
        hold: bool,
    },
    CancelQueued {
        thread: usize,
    },
    Promote {
        thread: usize,
    },
    ResumeQueue {
        thread: usize,
    },
    Rename {
        thread: usize,
    },
    Archive {
        thread: usize,
        archived: bool,
    },
    Delete {
        thread: usize,
    },
    /// Somebody switches the events of a thread.
    Switch {
        thread: usize,
        on: bool,
        origin: u8,
    },
    /// T3 is killed, and comes up after so many milliseconds.
    RestartT3(u64),
    /// The network is gone for so many milliseconds.
    Cut(u64),
    /// The gateway is killed, and comes up after so many milliseconds.
    Kill {
        when: Death,
        down: u64,
        /// With a ledger that was closed and is opened again.
        reopen: bool,
    },
    /// What the hook's receiver does from now on.
    Receiver(Mood),
}

/// When a gateway dies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Death {
    Now,
    /// It knows what to keep, and does not come to keep it.
    BeforeCommit,
    /// It kept it, and comes to do nothing more.
    AfterCommit,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mood {
    Up,
    Down,
    /// As the case's answers say.
    Mixed,
}

/// How a read goes.
#[derive(Clone, Copy, Debug)]
pub struct ReadWay {
    pub milliseconds: u64,
    /// T3 looks at the thread as the read begins; else as it ends.
    pub early: bool,
    pub fails: bool,
}

/// What a receiver does with an event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    /// It takes it after so many seconds.
    Takes(i64),
    Refuses,
    Gone,
    /// It wants to be left alone for so many seconds.
    Later(i64),
    Silent,
    /// It takes it, and the gateway dies before it hears of that.
    TakesAndWeDie,
    /// The gateway dies as it sends.
    WeDie,
    /// It takes it, and we hear of that only when the claim has run out.
    TakesAndWeSleep,
    /// It refuses it, and we hear of that only when the claim has run out.
    RefusesAndWeSleep,
}

fn pause() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 1_u64..60,
        4 => 60_u64..600,
        4 => 600_u64..4_000,
        3 => 4_000_u64..60_000,
        2 => 60_000_u64..1_200_000,
        1 => 1_200_000_u64..20_000_000,
    ]
}

/// How long something is away.
fn away() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 100_u64..3_000,
        4 => 3_000_u64..60_000,
        2 => 60_000_u64..1_200_000,
        1 => 1_200_000_u64..20_000_000,
    ]
}

fn thread() -> impl Strategy<Value = usize> {
    prop_oneof![3 => Just(0_usize), 2 => Just(1), 1 => Just(2)]
}

fn sender() -> impl Strategy<Value = Sender> {
    let fate = prop_oneof![
        12 => Just(Fate::Known),
        2 => Just(Fate::AnswerLost),
        1 => Just(Fate::DiesBefore),
        1 => (1_u64..9_000).prop_map(Fate::DiesMeanwhile),
        1 => Just(Fate::DiesAfter),
    ];
    prop_oneof![
        5 => (prop::bool::weighted(0.8), 0_u8..4, fate)
            .prop_map(|(watch, origin, fate)| Sender::Us { watch, origin, fate }),
        2 => Just(Sender::Person),
    ]
}

fn way() -> impl Strategy<Value = Way> {
    prop_oneof![3 => Just(Way::Plain), 1 => Just(Way::Steer), 1 => Just(Way::Restart)]
}

fn prompt() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        3 => Just("say done"),
        3 => Just("sleep 2"),
        3 => Just("sleep 90"),
        1 => Just("sleep 4000"),
        1 => Just("fail for a reason"),
        3 => Just("ask1"),
        2 => Just("ask message"),
        2 => Just("approve ls"),
        2 => Just("approve2"),
        1 => Just("background 20"),
        1 => Just(" "),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let death = prop_oneof![
        2 => Just(Death::Now),
        2 => Just(Death::BeforeCommit),
        1 => Just(Death::AfterCommit),
    ];
    let mood = prop_oneof![2 => Just(Mood::Up), 3 => Just(Mood::Down), 3 => Just(Mood::Mixed)];
    prop_oneof![
        20 => (thread(), sender(), way(), prompt())
            .prop_map(|(thread, sender, way, prompt)| Step::Send { thread, sender, way, prompt }),
        6 => (thread(), prop::bool::weighted(0.7)).prop_map(|(thread, accept)| Step::Answer { thread, accept }),
        4 => (thread(), any::<bool>()).prop_map(|(thread, hold)| Step::Interrupt { thread, hold }),
        3 => thread().prop_map(|thread| Step::CancelQueued { thread }),
        3 => thread().prop_map(|thread| Step::Promote { thread }),
        2 => thread().prop_map(|thread| Step::ResumeQueue { thread }),
        1 => thread().prop_map(|thread| Step::Rename { thread }),
        1 => (thread(), any::<bool>()).prop_map(|(thread, archived)| Step::Archive { thread, archived }),
        1 => thread().prop_map(|thread| Step::Delete { thread }),
        4 => (thread(), prop::bool::weighted(0.7), 0_u8..4)
            .prop_map(|(thread, on, origin)| Step::Switch { thread, on, origin }),
        4 => away().prop_map(Step::RestartT3),
        6 => away().prop_map(Step::Cut),
        6 => (death, away(), prop::bool::weighted(0.1))
            .prop_map(|(when, down, reopen)| Step::Kill { when, down, reopen }),
        4 => mood.prop_map(Step::Receiver),
    ]
}

fn server() -> impl Strategy<Value = Server> {
    let bounded = prop_oneof![Just(None), Just(Some(1)), Just(Some(2))];
    let rarely = prop::bool::weighted(0.1);
    (
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        bounded,
        any::<bool>(),
        rarely,
    )
        .prop_map(
            |(newer, continues, archive_apart, bounded, steers_inside, slow_checkpoints)| Server {
                newer,
                continues,
                archive_apart,
                bounded,
                steers_inside,
                slow_checkpoints,
            },
        )
}

fn read_way() -> impl Strategy<Value = ReadWay> {
    let milliseconds = prop_oneof![4 => 1_u64..20, 3 => 20_u64..400, 1 => 400_u64..2_000];
    (milliseconds, any::<bool>(), prop::bool::weighted(0.06)).prop_map(|(milliseconds, early, fails)| ReadWay {
        milliseconds,
        early,
        fails,
    })
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        4 => (0_i64..14).prop_map(Answer::Takes),
        4 => Just(Answer::Refuses),
        1 => Just(Answer::Gone),
        2 => prop_oneof![0_i64..600, Just(100_000)].prop_map(Answer::Later),
        3 => Just(Answer::Silent),
        1 => Just(Answer::TakesAndWeDie),
        1 => Just(Answer::WeDie),
        1 => Just(Answer::TakesAndWeSleep),
        1 => Just(Answer::RefusesAndWeSleep),
    ]
}

/// Any case.
pub fn case() -> impl Strategy<Value = Case> {
    (
        server(),
        vec((pause(), step()), 1..24),
        vec(read_way(), 1..6),
        vec(answer(), 1..6),
    )
        .prop_map(|(server, steps, reads, answers)| Case {
            server,
            steps,
            reads,
            answers,
        })
}
