//! The ids of T3's contracts.
// STAND-IN until the generated newtypes are there (`pub use v2::{ThreadId, ...}`): same surface as typify's newtypes.

macro_rules! id {
    ($($name:ident),* $(,)?) => {$(
        /// An opaque id.
        #[derive(Clone, Debug, Eq, PartialEq, Ord, PartialOrd, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);
        impl From<String> for $name { fn from(s: String) -> Self { Self(s) } }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { self.0.fmt(f) }
        }
        impl std::ops::Deref for $name { type Target = String; fn deref(&self) -> &String { &self.0 } }
    )*};
}

id!(
    CommandId,
    EnvironmentId,
    MessageId,
    ProjectId,
    ProviderInstanceId,
    RunId,
    RuntimeRequestId,
    ThreadId
);
