//! Values to columns and back.
//!
//! Reading goes by position, in the order of the query's columns: a row is read once, from left to right.

use jiff::Timestamp;
use sqlx::sqlite::{Sqlite, SqliteRow};
use sqlx::{Decode, Row as _, Type};

use crate::lifecycle::{Baseline, Watch};
use crate::store::error::Fault;

/// A time as it is stored.
pub(super) fn micros(time: Timestamp) -> i64 {
    time.as_microsecond()
}

/// A count as it is stored. None that we keep comes near the end of the range.
pub(super) fn integer(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A count that was stored.
pub(super) fn count(stored: i64) -> Result<u64, Fault> {
    u64::try_from(stored).map_err(|_| Fault::Value("a count below zero"))
}

/// A time that was stored.
pub(super) fn time(stored: i64) -> Result<Timestamp, Fault> {
    Timestamp::from_microsecond(stored).map_err(|_| Fault::Value("a time beyond the calendar"))
}

/// A row that is read from left to right.
pub(super) struct Columns<'r> {
    row: &'r SqliteRow,
    next: usize,
}

impl<'r> Columns<'r> {
    pub(super) fn of(row: &'r SqliteRow) -> Self {
        Self { row, next: 0 }
    }

    /// The next column.
    pub(super) fn take<T>(&mut self) -> Result<T, Fault>
    where
        T: Decode<'r, Sqlite> + Type<Sqlite>,
    {
        // The types are declared (STRICT) and the file was checked at the start: a check of each value costs a third of a start.
        let value = self.row.try_get_unchecked(self.next)?;
        self.next += 1;
        Ok(value)
    }

    /// The next column, as the newtype of its text.
    pub(super) fn id<T: From<String>>(&mut self) -> Result<T, Fault> {
        self.take::<String>().map(T::from)
    }

    /// The next column, as the newtype of its text, if it has one.
    pub(super) fn id_if<T: From<String>>(&mut self) -> Result<Option<T>, Fault> {
        Ok(self.take::<Option<String>>()?.map(T::from))
    }

    pub(super) fn time(&mut self) -> Result<Timestamp, Fault> {
        time(self.take()?)
    }

    pub(super) fn time_if(&mut self) -> Result<Option<Timestamp>, Fault> {
        self.take::<Option<i64>>()?.map(time).transpose()
    }

    pub(super) fn count(&mut self) -> Result<u64, Fault> {
        count(self.take()?)
    }

    pub(super) fn small(&mut self) -> Result<u32, Fault> {
        u32::try_from(self.take::<i64>()?).map_err(|_| Fault::Value("a number out of its range"))
    }

    /// The next three columns: on, origin, client.
    pub(super) fn watch(&mut self) -> Result<Watch, Fault> {
        Ok(Watch {
            on: self.take()?,
            origin: self.take()?,
            client: self.take()?,
        })
    }

    /// The next two columns: ordinal, requested at.
    pub(super) fn baseline(&mut self) -> Result<Option<Baseline>, Fault> {
        let (ordinal, requested_at) = (self.take::<Option<i64>>()?, self.time_if()?);
        match (ordinal, requested_at) {
            (Some(ordinal), Some(requested_at)) => Ok(Some(Baseline {
                ordinal: count(ordinal)?,
                requested_at,
            })),
            (None, _) | (_, None) => Ok(None),
        }
    }
}
