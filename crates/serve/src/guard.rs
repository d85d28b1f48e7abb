//! Who may read the pages, and the headers that all of them have.

use crate::form;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, LOCATION, REFERRER_POLICY, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Nothing from other hosts, nothing inline, no frame around a page.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The name of the cookie that has the token.
const NAME: &str = "dnsrack";

/// Says who may read the pages.
pub struct Guard {
    at: SocketAddr,
    /// Needed where other machines reach the address.
    token: Option<String>,
}

impl Guard {
    /// For pages at an address.
    ///
    /// # Errors
    /// Where the system gives no random numbers.
    pub fn new(at: SocketAddr) -> io::Result<Self> {
        let mut octets = [0; 16];
        let token = match at.ip().is_loopback() {
            true => None,
            false => {
                aws_lc_rs::rand::fill(&mut octets)
                    .map_err(|_| io::Error::other("the system gives no random numbers"))?;
                Some(octets.iter().map(|octet| format!("{octet:02x}")).collect())
            }
        };
        Ok(Self { at, token })
    }

    /// The address of the first page, with the token.
    pub fn first_page(&self) -> String {
        let token = self.token.as_ref().map_or_else(String::new, |token| format!("?token={token}"));
        format!("http://{}/{token}", self.at)
    }

    /// Whether a request's host is ours. Where there is a token it does not matter.
    fn is_our_host(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let port = format!(":{}", self.at.port());
        let name = host.strip_suffix(&port).unwrap_or(host);
        self.token.is_some()
            || ["localhost", "127.0.0.1", "[::1]"].contains(&name)
            || host == self.at.to_string()
    }

    fn is_token(&self, said: &str) -> bool {
        let token = self.token.as_deref().unwrap_or_default();
        verify_slices_are_equal(token.as_bytes(), said.as_bytes()).is_ok()
    }

    fn has_token(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(COOKIE).into_iter().filter_map(|cookies| cookies.to_str().ok());
        let mut values = cookies.flat_map(|all| all.split(';')).filter_map(|one| one.trim().split_once('='));
        self.token.is_none() || values.any(|(name, value)| name == NAME && self.is_token(value))
    }
}

/// Lets a request pass, or says why not.
pub async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let mut response = if !guard.is_our_host(request.headers()) {
        form::refused(
            "the request's Host is not a name of this machine: ask for http://127.0.0.1 or http://localhost",
        )
    } else if guard.has_token(request.headers()) {
        next.run(request).await
    } else {
        let query = request.uri().query().unwrap_or_default();
        match query
            .split('&')
            .find_map(|part| part.strip_prefix("token="))
            .filter(|said| guard.is_token(said))
        {
            // The token goes into a cookie, so that it is in no address that is shared.
            Some(token) => {
                let mut welcome = Response::default();
                *welcome.status_mut() = StatusCode::SEE_OTHER;
                let cookie = format!("{NAME}={token}; HttpOnly; SameSite=Strict; Path=/");
                let path = HeaderValue::from_str(request.uri().path());
                if let (Ok(cookie), Ok(path)) = (HeaderValue::from_str(&cookie), path) {
                    welcome.headers_mut().extend([(SET_COOKIE, cookie), (LOCATION, path)]);
                }
                welcome
            }
            None => form::refused("open the address that dnsrack serve printed: it has a token"),
        }
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_this_machine_pass_and_names_of_others_do_not() {
        let guard = Guard::new("127.0.0.1:5380".parse().unwrap()).unwrap();
        let with = |host: &str| HeaderMap::from_iter([(HOST, HeaderValue::from_str(host).unwrap())]);
        for host in ["127.0.0.1:5380", "localhost:5380", "localhost", "[::1]:5380"] {
            assert!(guard.is_our_host(&with(host)), "{host}");
        }
        for host in ["evil.example:5380", "127.0.0.1.evil.example", "", "localhost.evil"] {
            assert!(!guard.is_our_host(&with(host)), "{host}");
        }
        assert!(guard.has_token(&HeaderMap::new()));
        assert_eq!(guard.first_page(), "http://127.0.0.1:5380/");
    }

    #[test]
    fn other_addresses_need_the_token() {
        let guard = Guard::new("192.0.2.1:80".parse().unwrap()).unwrap();
        let token = guard.first_page().split_once("?token=").unwrap().1.to_owned();
        assert_eq!(token.len(), 32);
        let with = |cookie: &str| HeaderMap::from_iter([(COOKIE, HeaderValue::from_str(cookie).unwrap())]);
        assert!(guard.has_token(&with(&format!("a=b; dnsrack={token}"))));
        for cookie in ["dnsrack=", "dnsrack=0", "other=1", &format!("x={token}")] {
            assert!(!guard.has_token(&with(cookie)), "{cookie}");
        }
        assert!(!guard.has_token(&HeaderMap::new()));
    }
}
