//! Every curve of `backoff` compiles.

#[delayed::task(retry = 3, backoff = exponential("1s", max = "10m"))]
fn exponential() {}

#[delayed::task(max_attempts = 4, backoff = linear("10s", max = "5m"))]
fn linear() {}

#[delayed::task(retry_for = "2d", backoff = fixed("30s"))]
fn fixed() {}

#[delayed::task(retry = -1, backoff = none)]
fn none() {}

#[test]
fn every_curve_compiles() {
    let _ = (exponential::call(), linear::call(), fixed::call(), none::call().max_attempts(3));
}
