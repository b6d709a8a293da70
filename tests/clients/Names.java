// SPDX-License-Identifier: Apache-2.0
// Looks names up: `java Names.java NAME…`.
import java.net.InetAddress;

public class Names {
    public static void main(String[] names) {
        for (String name : names) {
            try {
                System.out.println(name + " " + InetAddress.getAllByName(name).length);
            } catch (java.net.UnknownHostException error) {
                System.out.println(name + " none");
            }
        }
    }
}
