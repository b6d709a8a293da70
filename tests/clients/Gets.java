// SPDX-License-Identifier: Apache-2.0
import java.io.FileInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/**
 * `java Gets.java CA COUNT URL…`: COUNT requests to each URL in turn with one HttpClient for HTTP/1.1.
 * A body in which s_server says what was agreed is printed.
 */
class Gets {
    public static void main(String[] words) throws Exception {
        HttpClient client = HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1)
            .sslContext(trusting(words[0]))
            .build();
        for (int place = 2; place < words.length; place++) {
            for (int turn = 0; turn < Integer.parseInt(words[1]); turn++) {
                HttpRequest request = HttpRequest.newBuilder(URI.create(words[place])).build();
                String body = client.send(request, HttpResponse.BodyHandlers.ofString()).body();
                if (body.contains("Cipher is")) {
                    System.out.println(body);
                }
            }
        }
    }

    private static SSLContext trusting(String path) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (FileInputStream file = new FileInputStream(path)) {
            store.setCertificateEntry("server", CertificateFactory.getInstance("X.509").generateCertificate(file));
        }
        TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        factory.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, factory.getTrustManagers(), null);
        return context;
    }
}
