use super::*;

#[test]
fn a_moment_is_a_system_time_and_back() {
    for (seconds, nanoseconds) in
        [(0, 0), (1, 5), (-1, 5), (-1, 0), (-62_135_596_800, 999_999_999), (1 << 40, 1)]
    {
        let moment = Timestamp::new(seconds, nanoseconds).unwrap();
        let time = SystemTime::try_from(moment).unwrap();
        assert_eq!(Timestamp::from(time), moment);
    }
    assert_eq!(Timestamp::new(0, NANOS_PER_SEC), None);
    let error = SystemTime::try_from(Timestamp::new(i64::MIN, 0).unwrap());
    assert_eq!(error.is_ok(), UNIX_EPOCH.checked_sub(Duration::from_secs(1 << 63)).is_some());
}

#[test]
fn the_extension_is_as_short_as_it_can_be() {
    for (seconds, nanoseconds, length) in [
        (0, 0, 4),
        (u32::MAX.into(), 0, 4),
        (1 << 32, 0, 8),
        (5, 1, 8),
        ((1 << 34) - 1, 999_999_999, 8),
        (1 << 34, 0, 12),
        (-1, 0, 12),
        (i64::MIN, 1, 12),
    ] {
        let moment = Timestamp::new(seconds, nanoseconds).unwrap();
        let (content, shortest) = moment.to_extension();
        assert_eq!(shortest, length);
        assert_eq!(Timestamp::from_extension(&content[..length]), Some(moment));
    }
    assert_eq!(Timestamp::from_extension(&[0; 5]), None);
    assert_eq!(Timestamp::from_extension(&[0xff; 8]), None);
}

#[test]
fn seconds_as_a_float() {
    assert_eq!(Timestamp::from_seconds(1.5), Timestamp::new(1, 500_000_000));
    assert_eq!(Timestamp::from_seconds(-0.25), Timestamp::new(-1, 750_000_000));
    assert_eq!(Timestamp::from_seconds(0.999_999_999_9), Timestamp::new(1, 0));
    for none in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300, 9_223_372_036_854_775_808.0] {
        assert_eq!(Timestamp::from_seconds(none), None);
    }
}

#[test]
fn a_moment_as_text() {
    let text = |seconds, nanoseconds| Timestamp::new(seconds, nanoseconds).unwrap().to_string();
    assert_eq!(text(0, 0), "1970-01-01T00:00:00Z");
    assert_eq!(text(1_700_000_000, 500_000_000), "2023-11-14T22:13:20.5Z");
    assert_eq!(text(951_827_696, 1), "2000-02-29T12:34:56.000000001Z");
    assert_eq!(text(-1, 0), "1969-12-31T23:59:59Z");
    assert_eq!(text(-62_135_596_800, 0), "0001-01-01T00:00:00Z");
    assert_eq!(text(253_402_300_799, 0), "9999-12-31T23:59:59Z");
    assert_eq!(text(253_402_300_800, 5), "253402300800.000000005 s");
    assert_eq!(text(i64::MIN, 0), format!("{} s", i64::MIN));
}

#[test]
fn formats_for_humans_have_its_fields() {
    let moment = Timestamp::new(-5, 7).unwrap();
    let text = serde_json::to_string(&moment).unwrap();
    assert_eq!(text, r#"{"secs_since_epoch":-5,"nanos_since_epoch":7}"#);
    assert_eq!(serde_json::from_str::<Timestamp>(&text).unwrap(), moment);
    assert_eq!(serde_json::from_str::<Timestamp>("1.5").unwrap(), Timestamp::new(1, 500_000_000).unwrap());
    assert!(serde_json::from_str::<Timestamp>("18446744073709551615").is_err());
}

#[test]
fn a_moment_is_read_from_the_text_that_it_is_written_as() {
    for (seconds, nanoseconds) in [
        (0, 0),
        (951_782_399, 999_999_999),
        (951_782_400, 1),
        (-62_167_219_200, 0),
        (253_402_300_799, 500_000_000),
        (253_402_300_800, 5),
        (-62_167_219_201, 0),
        (i64::MIN, 1),
    ] {
        let moment = Timestamp::new(seconds, nanoseconds).unwrap();
        assert_eq!(Timestamp::parse(&moment.to_string()), Some((moment, 0)), "{moment}");
    }
}

#[test]
fn a_moment_is_read_from_any_text_of_rfc_3339() {
    for (text, seconds, nanoseconds, offset) in [
        ("2023-11-14T22:13:20Z", 1_700_000_000, 0, 0),
        ("2023-11-14t22:13:20z", 1_700_000_000, 0, 0),
        ("2023-11-15T03:43:20.25+05:30", 1_700_000_000, 250_000_000, 19_800),
        ("2023-11-14T14:13:20.1234567899-08:00", 1_700_000_000, 123_456_789, -28_800),
        ("2016-12-31T23:59:60Z", 1_483_228_800, 0, 0),
        ("2024-02-29T00:00:00-00:00", 1_709_164_800, 0, 0),
    ] {
        let moment = Timestamp::new(seconds, nanoseconds).unwrap();
        assert_eq!(Timestamp::parse(text), Some((moment, offset)), "{text}");
        assert_eq!(serde_json::from_value::<Timestamp>(text.into()).unwrap(), moment, "{text}");
    }
    for text in [
        "",
        "2023-11-14",
        "2023-11-14T22:13:20",
        "2023-11-14T22:13Z",
        "2023-02-29T00:00:00Z",
        "2023-13-01T00:00:00Z",
        "2023-11-14T24:00:00Z",
        "2023-11-14T22:60:00Z",
        "2023-11-14T22:13:61Z",
        "2023-11-14T22:13:20.Z",
        "2023-11-14T22:13:20+0100",
        "2023-11-14T22:13:20+24:00",
        "2023-11-14T22-13-20Z",
        "2023-11-14T22:13:20Zé",
        "2023-11-14T22:13:2éZ",
        "+023-11-14T22:13:20Z",
        "5.1.2 s",
        "99999999999999999999 s",
    ] {
        assert_eq!(Timestamp::parse(text), None, "{text}");
    }
}
